// crema summary: what a net is and what was planned for it.
#include <algorithm>
#include <cstdio>

#include "core/utf8.hpp"
#include "crema/parameter_arena.hpp"
#include "net/traffic.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

struct Widths {
  int name = 5, type = 4;
};

/// What stands behind the engine of a step.
std::string remarks(const NetStep& step, const StepTraffic& traffic) {
  const std::string where = placement(traffic);
  return text(where.empty() ? "" : " ", where, step.detail.empty() ? "" : " ", step.detail);
}

void print_row(const std::vector<NetValue>& values, const LayerSummary& row,
               const StepTraffic& traffic, const Widths& widths) {
  if (!row.fused_into.empty()) {
    std::printf("%-*s %-*s in '%s'\n", widths.name, printable(row.name).c_str(), widths.type,
                row.type.c_str(), printable(row.fused_into).c_str());
    return;
  }
  std::vector<std::string> shapes;
  double bytes = 0;
  for (const int top : row.tops) {
    const NetValue& value = values[static_cast<size_t>(top)];
    shapes.push_back(value.shape.str());
    bytes += static_cast<double>(value.bytes);
  }
  std::printf("%-*s %-*s %-20s %10lld %9.3f %9s %-13s %s%s\n", widths.name,
              printable(row.name).c_str(), widths.type, row.type.c_str(),
              joined(shapes, " ").c_str(), static_cast<long long>(row.params),
              row.flops.forward / 1e9, human_bytes(bytes).c_str(), row.top_format.c_str(),
              row.engine.c_str(), remarks(row, traffic).c_str());
}

void print_conversion(const std::vector<NetValue>& values, const NetStep& step,
                      const StepTraffic& traffic, const Widths& widths) {
  const std::string where = placement(traffic);
  const NetValue& top = values[static_cast<size_t>(step.tops[0])];
  std::printf("%-*s %-*s %-20s %10s %9s %9s %-13s from %s%s%s\n", widths.name,
              printable(step.name).c_str(), widths.type, step.type.c_str(), top.shape.str().c_str(),
              "", "", "", step.top_format.c_str(), step.bottom_format.c_str(),
              where.empty() ? "" : ", ", where.c_str());
}

/// What of a net on a device is on the host, in a line. Data sources do not count.
void print_placement(const std::vector<NetStep>& steps, const std::vector<StepTraffic>& traffic) {
  int on_host = 0, of = 0;
  double to_host = 0, to_device = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    to_host += static_cast<double>(traffic[s].to_host);
    to_device += static_cast<double>(traffic[s].to_device);
    if (steps[s].bottoms.empty() || steps[s].layer < 0) continue;
    ++of;
    if (traffic[s].is_on_host()) ++on_host;
  }
  std::printf("on the host: %d of %d layers; an iteration moves %s from the device and %s to it\n",
              on_host, of, human_bytes(to_host).c_str(), human_bytes(to_device).c_str());
}

int summary(const std::vector<std::string>& arguments) {
  refuse_arguments("summary", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  ContextOptions options = context_options();
  options.logger = {};  // what it would say of the net is printed below
  Context context(options);
  log_planning("net");
  const Net net(FLAGS_model, context, net_options(Phase::train));
  const std::vector<LayerSummary> rows = net.summary();
  Widths widths;
  const auto widen = [&](const NetStep& of) {
    widths.name = std::max(widths.name, static_cast<int>(printable(of.name).size()));
    widths.type = std::max(widths.type, static_cast<int>(of.type.size()));
  };
  for (const LayerSummary& row : rows) widen(row);
  for (const NetStep& each : net.steps()) widen(each);
  std::printf("%-*s %-*s %-20s %10s %9s %9s %-13s %s\n", widths.name, "layer", widths.type, "type",
              "tops", "params", "GFLOP", "bytes", "format", "engine");
  double forward = 0, backward = 0;
  const std::vector<NetValue> values = net.values();
  const std::vector<StepTraffic> traffic = step_traffic(net);
  size_t step = 0;
  const auto print_conversions = [&] {
    for (; step < net.steps().size() && net.steps()[step].layer < 0; ++step) {
      print_conversion(values, net.steps()[step], traffic[step], widths);
    }
  };
  for (const auto& row : rows) {
    if (row.fused_into.empty()) {
      print_conversions();
      print_row(values, row, traffic[step++], widths);
    } else {
      print_row(values, row, {}, widths);
    }
    forward += row.flops.forward;
    backward += row.flops.backward;
  }
  print_conversions();
  const MemoryPlan memory = net.memory();
  auto bytes = [](size_t n) { return human_bytes(static_cast<double>(n)); };
  int64_t learned = 0, statistics = 0;
  for (const auto& segment : net.params().segments())
    (segment.parameter->learnable ? learned : statistics) += segment.count;
  std::printf("\n%lld parameters", static_cast<long long>(learned));
  if (statistics > 0) std::printf(" and %lld statistics", static_cast<long long>(statistics));
  std::printf(", %.3f GFLOP forward, %.3f backward\n", forward / 1e9, backward / 1e9);
  std::printf("memory: %s: %s activations (%s without sharing), %s parameters, %s engines\n",
              bytes(memory.activations + memory.parameters + memory.engines).c_str(),
              bytes(memory.activations).c_str(), bytes(memory.activations_unshared).c_str(),
              bytes(memory.parameters).c_str(), bytes(memory.engines).c_str());
  if (context.on_gpu()) print_placement(net.steps(), traffic);
  for (const auto& note : net.notes()) std::printf("note: %s\n", printable_message(note).c_str());
  return 0;
}

}  // namespace

extern const Command kSummary = {
    "summary",
    "shows a net's layers, shapes, cost and plan",
    "  crema summary --model train_val.prototxt [--phase TEST]\n"
    "\n"
    "A line a layer, or conversion between layouts: its tops' shapes, parameters (the\n"
    "statistics of BatchNorm among them), GFLOP forward, bytes of its tops, memory format and\n"
    "engine; then what was fused, totals, memory and notes. With --gpu, also what runs on the\n"
    "host, and what moves between host and device in an iteration.",
    {"model", "gpu", "threads", "engine", "tune", "tuning_file", "seed", "plugin", "fuse",
     "memory_budget", "no_cuda_graphs", "phase", "level", "stage"},
    summary,
    1,
    NetUse::builds};

}  // namespace crema::tools
