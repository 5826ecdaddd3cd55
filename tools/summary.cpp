// crema summary: what a net is and what was planned for it.
#include "tools/summary.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "core/tuner.hpp"
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

/// Adds what printf() would print.
__attribute__((format(printf, 2, 3))) void append_printed(std::string& all, const char* form, ...) {
  va_list values, again;
  va_start(values, form);
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, form, values);
  va_end(values);
  std::vector<char> made(static_cast<size_t>(length) + 1);
  std::vsnprintf(made.data(), made.size(), form, again);
  va_end(again);
  all.append(made.data(), static_cast<size_t>(length));
}

/// What stands behind the engine of a step.
std::string remarks(const NetStep& step, const StepTraffic& traffic) {
  const std::string where = placement(traffic);
  return text(where.empty() ? "" : " ", where, step.detail.empty() ? "" : " ", step.detail);
}

void add_row(std::string& all, const std::vector<NetValue>& values, const LayerSummary& row,
             const StepTraffic& traffic, const Widths& widths) {
  if (!row.fused_into.empty()) {
    append_printed(all, "%-*s %-*s in '%s'\n", widths.name, printable(row.name).c_str(),
                   widths.type, row.type.c_str(), printable(row.fused_into).c_str());
    return;
  }
  std::vector<std::string> shapes;
  double bytes = 0;
  for (const int top : row.tops) {
    const NetValue& value = values[static_cast<size_t>(top)];
    shapes.push_back(value.shape.str());
    bytes += static_cast<double>(value.bytes);
  }
  append_printed(all, "%-*s %-*s %-20s %10lld %9.3f %9s %-13s %s%s\n", widths.name,
                 printable(row.name).c_str(), widths.type, row.type.c_str(),
                 joined(shapes, " ").c_str(), static_cast<long long>(row.params),
                 row.flops.forward / 1e9, human_bytes(bytes).c_str(), row.top_format.c_str(),
                 row.engine.c_str(), remarks(row, traffic).c_str());
}

void add_conversion(std::string& all, const std::vector<NetValue>& values, const NetStep& step,
                    const StepTraffic& traffic, const Widths& widths) {
  const std::string where = placement(traffic);
  const NetValue& top = values[static_cast<size_t>(step.tops[0])];
  append_printed(all, "%-*s %-*s %-20s %10s %9s %9s %-13s from %s%s%s\n", widths.name,
                 printable(step.name).c_str(), widths.type, step.type.c_str(),
                 top.shape.str().c_str(), "", "", "", step.top_format.c_str(),
                 step.bottom_format.c_str(), where.empty() ? "" : ", ", where.c_str());
}

/// What of a net on a device is on the host, in a line. Data sources do not count.
void add_placement(std::string& all, const std::vector<NetStep>& steps,
                   const std::vector<StepTraffic>& traffic) {
  int on_host = 0, of = 0;
  double to_host = 0, to_device = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    to_host += static_cast<double>(traffic[s].to_host);
    to_device += static_cast<double>(traffic[s].to_device);
    if (steps[s].bottoms.empty() || steps[s].layer < 0) continue;
    ++of;
    if (traffic[s].is_on_host()) ++on_host;
  }
  append_printed(
      all, "on the host: %d of %d layers; an iteration moves %s from the device and %s to it\n",
      on_host, of, human_bytes(to_host).c_str(), human_bytes(to_device).c_str());
}

}  // namespace

std::string summary_of(const Net& net) {
  std::string all;
  const std::vector<LayerSummary> rows = net.summary();
  Widths widths;
  const auto widen = [&](const NetStep& of) {
    widths.name = std::max(widths.name, static_cast<int>(printable(of.name).size()));
    widths.type = std::max(widths.type, static_cast<int>(of.type.size()));
  };
  for (const LayerSummary& row : rows) widen(row);
  for (const NetStep& each : net.steps()) widen(each);
  append_printed(all, "%-*s %-*s %-20s %10s %9s %9s %-13s %s\n", widths.name, "layer", widths.type,
                 "type", "tops", "params", "GFLOP", "bytes", "format", "engine");
  double forward = 0, backward = 0;
  const std::vector<NetValue> values = net.values();
  const std::vector<StepTraffic> traffic = step_traffic(net);
  size_t step = 0;
  const auto add_conversions = [&] {
    for (; step < net.steps().size() && net.steps()[step].layer < 0; ++step) {
      add_conversion(all, values, net.steps()[step], traffic[step], widths);
    }
  };
  for (const auto& row : rows) {
    if (row.fused_into.empty()) {
      add_conversions();
      add_row(all, values, row, traffic[step++], widths);
    } else {
      add_row(all, values, row, {}, widths);
    }
    forward += row.flops.forward;
    backward += row.flops.backward;
  }
  add_conversions();
  const MemoryPlan memory = net.memory();
  auto bytes = [](size_t n) { return human_bytes(static_cast<double>(n)); };
  int64_t learned = 0, statistics = 0;
  for (const auto& segment : net.params().segments())
    (segment.parameter->learnable ? learned : statistics) += segment.count;
  append_printed(all, "\n%lld parameters", static_cast<long long>(learned));
  if (statistics > 0)
    append_printed(all, " and %lld statistics", static_cast<long long>(statistics));
  append_printed(all, ", %.3f GFLOP forward, %.3f backward\n", forward / 1e9, backward / 1e9);
  append_printed(all,
                 "memory: %s: %s activations (%s without sharing), %s parameters, %s engines\n",
                 bytes(memory.activations + memory.parameters + memory.engines).c_str(),
                 bytes(memory.activations).c_str(), bytes(memory.activations_unshared).c_str(),
                 bytes(memory.parameters).c_str(), bytes(memory.engines).c_str());
  if (net.context().on_gpu()) add_placement(all, net.steps(), traffic);
  for (const auto& note : net.notes())
    append_printed(all, "note: %s\n", printable_message(note).c_str());
  return all;
}

namespace {

int summary(const std::vector<std::string>& arguments) {
  refuse_arguments("summary", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  ContextOptions options = context_options();
  options.logger = {};  // what it would say of the net is printed below
  Context context(options);
  if (!is_given("tune")) context.tuner().measure_nothing();
  if (context.tuner().measures()) log_planning("net");
  const Net net(FLAGS_model, context, net_options(Phase::train));
  std::fputs(summary_of(net).c_str(), stdout);
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
    "host, and what moves between host and device in an iteration. Nothing is measured, unless\n"
    "--tune is set: an engine is \"tuned\" where measured times decide, \"by model\" where "
    "kernels\n"
    "are taken that are expected to be the fastest, and \"untuned\" where nothing is known.",
    {"model", "gpu", "threads", "engine", "tune", "tuning_file", "seed", "plugin", "fuse",
     "memory_budget", "no_cuda_graphs", "phase", "level", "stage"},
    summary,
    1,
    NetUse::builds};

}  // namespace crema::tools
