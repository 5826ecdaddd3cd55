// crema time: how long each layer of a net takes.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/device.hpp"
#include "core/json.hpp"
#include "core/simd.hpp"
#include "core/split_list.hpp"
#include "core/tuner.hpp"
#include "core/utf8.hpp"
#include "tools/command.hpp"
#include "tools/device_time.hpp"
#include "tools/flags.hpp"
#include "tools/peak.hpp"
#include "tools/resident.hpp"
#include "tools/startup_time.hpp"
#include "tools/time_tables.hpp"

DEFINE_bool(
    peak, false,
    "Measure the machine's FMA peak too, or what a GPU copies and multiplies in a second, and show "
    "each layer's share of it.");
DEFINE_bool(forward_only, false, "Time forward alone.");
DEFINE_bool(startup, false,
            "Time the parts of a start in phase TEST, in --iterations processes (10 are enough).");
DEFINE_bool(
    retune, false,
    "Measure the engines of the net's problems anew, as if the tuning file did not know them.");

namespace crema::tools {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Timing {
  std::vector<std::vector<double>> forward, backward;  // [step][iteration], ms
  std::vector<double> forward_total, backward_total, total;

  explicit Timing(size_t steps) : forward(steps), backward(steps) {}
};

/// Runs `iterations` and two more first, which take memory and fill caches and are not counted.
Timing measure(Net& net, int iterations, bool with_backward) {
  Timing timing(net.steps().size());
  const size_t steps = net.steps().size();
  for (int i = -2; i < iterations; ++i) {
    net.run_state().iteration = static_cast<uint64_t>(i + 2);
    if (with_backward) net.clear_gradients();
    double forward = 0, backward = 0;
    for (size_t s = 0; s < steps; ++s) {
      const auto start = Clock::now();
      net.forward_step(s);
      const double ms = milliseconds_since(start);
      forward += ms;
      if (i >= 0) timing.forward[s].push_back(ms);
    }
    for (size_t s = steps; with_backward && s-- > 0;) {
      if (!net.steps()[s].backward) continue;
      const auto start = Clock::now();
      net.backward_step(s);
      const double ms = milliseconds_since(start);
      backward += ms;
      if (i >= 0) timing.backward[s].push_back(ms);
    }
    if (i < 0) continue;
    timing.forward_total.push_back(forward);
    timing.backward_total.push_back(backward);
    timing.total.push_back(forward + backward);
  }
  return timing;
}

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

StepTimes medians_of(const Timing& timing) {
  StepTimes times;
  for (const auto& all : timing.forward) times.forward.push_back(median(all));
  for (const auto& all : timing.backward) times.backward.push_back(median(all));
  return times;
}

void print_table(const Net& net, const StepTimes& times, double peak) {
  const NameWidths widths = name_widths(net);
  std::printf("%-*s %-*s %10s %10s %9s %9s  %s\n", widths.name, "layer", widths.type, "type",
              "forward ms", "backward", "GFLOP/s", "backward", "engine");
  for (size_t s = 0; s < net.steps().size(); ++s) {
    const NetStep& step = net.steps()[s];
    const double forward = times.forward[s], backward = times.backward[s];
    const double forward_rate = forward > 0 ? step.flops.forward / forward / 1e6 : 0;
    const double backward_rate = backward > 0 ? step.flops.backward / backward / 1e6 : 0;
    std::printf("%-*s %-*s %10.3f %10.3f %9.1f %9.1f  %s %s>%s%s%s", widths.name,
                printable(step.name).c_str(), widths.type, step.type.c_str(), forward, backward,
                forward_rate, backward_rate, step.engine.c_str(), step.bottom_format.c_str(),
                step.top_format.c_str(), step.detail.empty() ? "" : " ", step.detail.c_str());
    if (peak > 0 && forward + backward > 0) {
      std::printf("  %.0f%% of peak", 100 * (step.flops.forward + step.flops.backward) /
                                          (forward + backward) / 1e6 / peak);
    }
    std::printf("\n");
  }
}

/// Takes no wider vectors than --simd, if it is set.
std::optional<SimdLimit> limit_simd() {
  if (FLAGS_simd.empty()) return std::nullopt;
  SimdLevel level;
  try {
    level = simd_level_of(FLAGS_simd);
  } catch (const Error& error) {
    throw Error("--simd: ", error.message());
  }
  if (level > simd_level())
    throw Error("--simd=", FLAGS_simd, ": this processor has ", to_string(simd_level()),
                " at most");
  // oneDNN reads it at its first use.
  if (level <= SimdLevel::avx2)
    setenv("ONEDNN_MAX_CPU_ISA", level == SimdLevel::avx2 ? "AVX2" : "SSE41", 1);
  return std::optional<SimdLimit>(std::in_place, level);
}

/// Times the net on the CPU. `peak`: the measured FMA peak, or 0.
void time_on_cpu(Context& context, double peak) {
  const int64_t before = resident_bytes();
  NetOptions options = net_options(Phase::train);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  log_planning("net");
  Net net(FLAGS_model, context, std::move(options));
  const bool with_backward = net.phase() == Phase::train && !FLAGS_forward_only;
  const Timing timing = measure(net, FLAGS_iterations, with_backward);
  const double taken = static_cast<double>(resident_bytes() - before) / 1e6;

  const Flops flops = product_flops(net, with_backward);
  const double forward = median(timing.forward_total), backward = median(timing.backward_total);
  const double total = median(timing.total);
  const double gflop = (flops.forward + flops.backward) / 1e9;
  const StepTimes times = medians_of(timing);
  print_table(net, times, peak);
  print_types(net, times, "GFLOP/s", 1e9, [&](double rate) {
    char share[32] = "";
    if (peak > 0) std::snprintf(share, sizeof share, "%.0f%% of peak", 100 * rate / 1e9 / peak);
    return std::string(share);
  });
  std::printf(
      "\n%s: forward %.2f ms, backward %.2f ms, together %.2f ms (medians of %d); %.1f "
      "GFLOP in convolutions, products, attention and recurrent layers, %.1f GFLOP/s",
      net.name().empty() ? "net" : printable(net.name()).c_str(), forward, backward, total,
      FLAGS_iterations, gflop, gflop / total * 1e3);
  if (peak > 0) std::printf(", %.0f%% of the FMA peak", 100 * gflop / total * 1e3 / peak);
  std::printf("; peak memory %.0f MB, %d threads\n", peak_memory_mb(), context.threads());
  std::printf("memory of the net: %.1f MB planned, %.1f MB taken\n", planned_mb(net), taken);
  if (FLAGS_json) {
    std::printf(
        "{\"net\": %s, \"forward_ms\": %.4f, \"backward_ms\": %.4f, \"total_ms\": %.4f, "
        "\"gflop_forward\": %.6f, \"gflop_total\": %.6f, \"peak_rss_mb\": %.1f, "
        "\"planned_mb\": %.1f, \"taken_mb\": %.1f, \"threads\": %d, \"fma_peak_gflops\": %.1f}\n",
        json_string(net.name()).c_str(), forward, backward, total, flops.forward / 1e9, gflop,
        peak_memory_mb(), planned_mb(net), taken, context.threads(), peak);
  }
}

int time(const std::vector<std::string>& arguments) {
  refuse_arguments("time", arguments, "give the net with --model=FILE");
  const std::optional<SimdLimit> simd = limit_simd();
  if (!FLAGS_peak) required_flag("model", FLAGS_model);
  if (FLAGS_iterations <= 0) throw Error("--iterations ", FLAGS_iterations, " must be at least 1");
  if (FLAGS_startup) {
    required_flag("model", FLAGS_model);
    time_startup(FLAGS_iterations, FLAGS_json);
    return 0;
  }
  if (FLAGS_retune && !FLAGS_tune)
    throw Error("--retune measures, and --tune=false does not; give one of them");
  Context context(context_options());
  if (FLAGS_retune) context.tuner().forget_times();
  if (context.on_gpu()) {
    DeviceCeilings ceilings;
    if (FLAGS_peak) {
      ceilings = measure_ceilings(context.backend());
      print_ceilings(context, ceilings);
    }
    if (!FLAGS_model.empty()) time_net_on_device(context, ceilings);
    return 0;
  }
  double peak = 0;
  if (FLAGS_peak) {
    peak = fma_peak_gflops(context.threads());
    const double rate = copy_rates(context.threads()).back().rate;
    std::printf("fma peak: %.1f GFLOP/s; copies of 256 MB: %.1f GB/s read and written\n", peak,
                rate / 1e9);
  }
  if (!FLAGS_model.empty()) time_on_cpu(context, peak);
  return 0;
}

}  // namespace

extern const Command kTime = {
    "time",
    "times each layer of a net",
    "  crema time --model train_val.prototxt [--iterations 50] [--phase TEST] [--peak] [--json]\n"
    "  crema time --startup --model deploy.prototxt --weights net.caffemodel --iterations 10\n"
    "\n"
    "Runs forward and backward (in phase TEST forward alone) and prints the median of each layer,\n"
    "its GFLOP/s and engine, the share of each type of layer, and totals. The net's GFLOP, here\n"
    "and in JSON, are those of convolutions, inner and matrix products, attention and recurrent\n"
    "layers. Its memory is what was planned, and what the process took since before the net was\n"
    "built; measuring kernels for the first time takes some too. Output layers such as HDF5Output\n"
    "write in each pass. With --weights the net starts from these. --retune measures kernels "
    "anew.\n"
    "\n"
    "With --gpu, the times of layers are those between points in the device's stream, and nothing\n"
    "waits between them: where a layer's kernels are shorter than their launches, it is these.\n"
    "Whole iterations, in the last lines, run without such points, in training with an update by\n"
    "SGD with momentum. The share of a layer is that of what the device can copy, as if each\n"
    "value were read and written once, or of what it can multiply, whichever is greater. --peak\n"
    "measures both.\n"
    "\n"
    "With --startup, the program is started anew for each iteration, and runs the net of phase\n"
    "TEST once: the times of its parts from the start of the process on, and its memory.",
    {"model",         "weights",      "strict",      "iterations", "json",       "peak",
     "simd",          "forward_only", "startup",     "gpu",        "threads",    "engine",
     "tune",          "retune",       "tuning_file", "seed",       "plugin",     "fuse",
     "memory_budget", "phase",        "level",       "stage",      "device_jpeg"},
    time,
    1,
    NetUse::runs};

}  // namespace crema::tools
