#include "tools/device_time.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "core/device.hpp"
#include "core/json.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "net/traffic.hpp"
#include "proto/solver.pb.h"
#include "tools/flags.hpp"
#include "tools/time_tables.hpp"

DECLARE_bool(forward_only);

namespace crema::tools {
namespace {

/// A net, alone or in a solver whose iterations are those of `crema train` with SGD.
struct TimedNet {
  std::unique_ptr<Solver> solver;
  std::unique_ptr<Net> alone;
  Net& net() { return solver ? solver->net() : *alone; }
};

/// The rate is too low to move the weights away from where they are: a net that is fed with zeros
/// shall not learn.
SolverParameter plain_solver() {
  SolverParameter solver;
  solver.set_net(FLAGS_model);
  solver.set_type("SGD");
  solver.set_base_lr(1e-9F);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9F);
  solver.set_weight_decay(0.0005F);
  solver.set_snapshot_after_train(false);
  return solver;
}

TimedNet build(Context& context) {
  NetOptions options = net_options(Phase::train);
  const std::vector<std::string> weights = split_list(FLAGS_weights);
  TimedNet timed;
  if (options.phase == Phase::train && !FLAGS_forward_only) {
    SolverOptions of_solver = solver_options();
    if (!weights.empty()) of_solver.weights = weights;
    of_solver.strict_weights = FLAGS_strict;
    timed.solver = std::make_unique<Solver>(plain_solver(), context, std::move(of_solver));
    return timed;
  }
  options.weights = weights;
  options.strict = FLAGS_strict;
  timed.alone = std::make_unique<Net>(FLAGS_model, context, std::move(options));
  return timed;
}

/// Whether the net lets f32 be multiplied in TF32: its `math`, where nets have such a setting.
bool multiplies_in_tf32(const Net& net) {
  return !net.layers().empty() && net.layers().front()->arithmetic().math == Math::tf32;
}

std::string percent_of(const CeilingShare& share) {
  return share.share > 0 ? text(static_cast<int>(100 * share.share + 0.5), "% ", share.ceiling)
                         : "";
}

void print_steps(const Net& net, const DeviceTimes& times, const DeviceCeilings& ceilings,
                 const std::vector<StepTraffic>& traffic, bool tf32) {
  const NameWidths widths = name_widths(net);
  std::printf("%-*s %-*s %10s %10s %10s %10s  %s\n", widths.name, "layer", widths.type, "type",
              "forward ms", "backward", "share", "backward", "engine");
  for (size_t s = 0; s < net.steps().size(); ++s) {
    const NetStep& step = net.steps()[s];
    const auto share = [&](double ms, size_t bytes, double flops) {
      return percent_of(share_of(ceilings, step, tf32, ms, static_cast<double>(bytes), flops));
    };
    const std::string forward = share(times.forward[s], traffic[s].forward, step.flops.forward),
                      backward = share(times.backward[s], traffic[s].backward, step.flops.backward);
    std::printf("%-*s %-*s %10.4f %10.4f %10s %10s  %s %s>%s%s%s%s\n", widths.name,
                printable(step.name).c_str(), widths.type, step.type.c_str(), times.forward[s],
                times.backward[s], forward.c_str(), backward.c_str(), step.engine.c_str(),
                step.bottom_format.c_str(), step.top_format.c_str(), step.detail.empty() ? "" : " ",
                step.detail.c_str(), traffic[s].is_on_host() ? " on the host" : "");
  }
}

/// The ceiling of products in the type of most of the work.
std::pair<const char*, double> product_ceiling(const Net& net, const DeviceCeilings& ceilings,
                                               bool tf32) {
  double in_bf16 = 0, all = 0;
  for (const NetStep& step : net.steps()) {
    all += step.flops.forward;
    if (step.bottom_format.find("bf16") != std::string::npos) in_bf16 += step.flops.forward;
  }
  if (2 * in_bf16 > all) return {"bf16", ceilings.bf16};
  return tf32 ? std::pair("tf32", ceilings.tf32) : std::pair("f32", ceilings.f32);
}

struct Totals {
  double update = 0, gflop_forward = 0, gflop = 0, planned_mb = 0, taken_mb = 0;
};

void print_totals(const Net& net, const DeviceTimes& times, const Totals& totals,
                  const DeviceCeilings& ceilings, bool tf32, bool trains) {
  const double tflops = totals.gflop / times.iteration;
  std::printf("\n%s: an iteration takes %.3f ms: forward %.3f",
              net.name().empty() ? "net" : printable(net.name()).c_str(), times.iteration,
              times.whole_forward);
  if (trains)
    std::printf(", backward %.3f, update and the rest %.3f", times.whole_backward, totals.update);
  std::printf(
      "; %.3f ms by the host's clock. Layer by layer: forward %.3f ms, backward %.3f ms (medians "
      "of "
      "%d)\n",
      times.host_iteration, times.forward_total, times.backward_total, FLAGS_iterations);
  std::printf("%.1f GFLOP in convolutions, products, attention and recurrent layers, %.2f TFLOP/s",
              totals.gflop, tflops);
  const auto [name, ceiling] = product_ceiling(net, ceilings, tf32);
  if (ceiling > 0) std::printf(", %.1f%% of the %s product", 100e12 * tflops / ceiling, name);
  std::printf("\ndevice memory: %.1f MB planned, %.1f MB taken\n", totals.planned_mb,
              totals.taken_mb);
}

void print_json(const Net& net, const DeviceTimes& times, const Totals& totals,
                const DeviceCeilings& ceilings, const std::string& device) {
  std::printf(
      "{\"net\": %s, \"device\": %s, \"forward_ms\": %.4f, \"backward_ms\": %.4f, \"update_ms\": "
      "%.4f, \"total_ms\": %.4f, \"host_ms\": %.4f, \"layers_forward_ms\": %.4f, "
      "\"layers_backward_ms\": %.4f, \"gflop_forward\": %.6f, \"gflop_total\": %.6f, "
      "\"planned_mb\": %.1f, \"taken_mb\": %.1f, \"copy_gbs\": %.1f, \"f32_tflops\": %.2f, "
      "\"tf32_tflops\": %.2f, \"bf16_tflops\": %.2f}\n",
      json_string(net.name()).c_str(), json_string(device).c_str(), times.whole_forward,
      times.whole_backward, totals.update, times.iteration, times.host_iteration,
      times.forward_total, times.backward_total, totals.gflop_forward, totals.gflop,
      totals.planned_mb, totals.taken_mb, ceilings.copy_bytes / 1e9, ceilings.f32 / 1e12,
      ceilings.tf32 / 1e12, ceilings.bf16 / 1e12);
}

std::string device_name(const Context& context) {
  std::string why;
  for (const DeviceInfo& device : cuda_devices(why)) {
    if (device.index == context.device().index) return device.name;
  }
  return "device";
}

}  // namespace

void print_ceilings(const Context& context, const DeviceCeilings& ceilings) {
  std::printf(
      "%s: copy %.0f GB/s read and written, products %.1f TFLOP/s in f32, %.1f in TF32, %.1f in "
      "bf16\n",
      device_name(context).c_str(), ceilings.copy_bytes / 1e9, ceilings.f32 / 1e12,
      ceilings.tf32 / 1e12, ceilings.bf16 / 1e12);
}

void time_net_on_device(Context& context, const DeviceCeilings& ceilings) {
  const size_t free_before = context.backend().free_bytes();
  log_planning("net");
  TimedNet timed = build(context);
  Net& net = timed.net();
  const bool trains = timed.solver != nullptr;
  DeviceTiming timing{.iterations = FLAGS_iterations, .with_backward = trains};
  if (trains) timing.iterate = [&](int iterations) { timed.solver->step(iterations); };
  const DeviceTimes times = time_on_device(net, timing);

  const Flops flops = product_flops(net, trains);
  // The momentum is an array of the size of the parameters.
  const double history = trains ? static_cast<double>(net.params().data().bytes()) / 1e6 : 0;
  const size_t free_now = context.backend().free_bytes();
  const Totals totals{
      .update = std::max(0.0, times.iteration - times.whole_forward - times.whole_backward),
      .gflop_forward = flops.forward / 1e9,
      .gflop = (flops.forward + flops.backward) / 1e9,
      .planned_mb = planned_mb(net) + history,
      .taken_mb = (static_cast<double>(free_before) - static_cast<double>(free_now)) / 1e6};
  const bool tf32 = multiplies_in_tf32(net);
  print_steps(net, times, ceilings, step_traffic(net), tf32);
  const auto [name, ceiling] = product_ceiling(net, ceilings, tf32);
  print_types(net, {times.forward, times.backward}, "TFLOP/s", 1e12,
              [&, name = name, ceiling = ceiling](double rate) {
                return ceiling > 0 ? text(static_cast<int>(100 * rate / ceiling + 0.5), "% ", name)
                                   : std::string();
              });
  print_totals(net, times, totals, ceilings, tf32, trains);
  if (FLAGS_json) print_json(net, times, totals, ceilings, device_name(context));
}

}  // namespace crema::tools
