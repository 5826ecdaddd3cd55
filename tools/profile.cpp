// crema profile: iterations of a net in which profilers see the layers.
#include "analysis/profile.hpp"

#include <cstdio>
#include <memory>

#include "core/split_list.hpp"
#include "crema/parameter_arena.hpp"
#include "model/whole_file.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"

DECLARE_bool(forward_only);
DEFINE_string(trace, "",
              "Write the times of the layers to this file, a trace in JSON that ui.perfetto.dev, "
              "chrome://tracing and TensorBoard show.");

namespace crema::tools {
namespace {

constexpr int kIterations = 5;

/// An update by SGD with momentum, as of `crema train`, that leaves the weights where they are.
class PlainUpdate {
 public:
  explicit PlainUpdate(Net& net) : net_(net), rule_(settings(), net.context()) {
    for (int i = 0; i < rule_.history_count(); ++i)
      history_.emplace_back(Shape{net.params().size()}, net.params().dtype());
  }

  void run() {
    net_.params().settle_gradients();
    rule_.update(net_.params(), history_, {.rate = 1e-9});
  }

 private:
  static SolverParameter settings() {
    SolverParameter solver;
    solver.set_type("SGD");
    solver.set_momentum(0.9F);
    solver.set_weight_decay(0.0005F);
    return solver;
  }

  Net& net_;
  UpdateRule rule_;
  std::vector<Tensor> history_;
};

int profile(const std::vector<std::string>& arguments) {
  refuse_arguments("profile", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  const int iterations = is_given("iterations") ? FLAGS_iterations : kIterations;
  if (iterations <= 0) throw Error("--iterations ", iterations, " must be at least 1");
  ContextOptions where = context_options();
  if (where.device.type == DeviceType::cpu && FLAGS_trace.empty())
    throw Error(
        "profile has nothing to show on the CPU without --trace=FILE: ranges for Nsight Systems "
        "are those of --gpu; `crema time` prints the times of layers");
  if (!FLAGS_trace.empty()) {
    check_replaced(FLAGS_trace, {FLAGS_model});
    check_output_file(FLAGS_trace, "the trace");
  }
  Context context(where);
  NetOptions options = net_options(Phase::train);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  log_planning("net");
  Net net(FLAGS_model, context, std::move(options));
  const bool trains = net.phase() == Phase::train && !FLAGS_forward_only;
  std::unique_ptr<PlainUpdate> update;
  if (trains && net.params().size() > 0) update = std::make_unique<PlainUpdate>(net);

  Profile wanted{.iterations = iterations, .with_backward = trains};
  if (update) wanted.update = [&] { update->run(); };
  const std::vector<TraceEvent> events = profile_net(net, wanted);
  std::printf("%d iterations", iterations);
  if (context.on_gpu())
    std::printf(
        " with a range (NVTX) for each iteration, pass, layer and update; `nsys profile "
        "--capture-range=cudaProfilerApi --trace=cuda,nvtx crema profile ...` records them alone");
  if (!FLAGS_trace.empty()) {
    WholeFile file(FLAGS_trace);
    file.append(trace_json(events));
    file.finish();
    std::printf("; %s has their times", FLAGS_trace.c_str());
  }
  std::printf("\n");
  return 0;
}

}  // namespace

extern const Command kProfile = {
    "profile",
    "runs a net so that profilers see its layers",
    "  nsys profile --capture-range=cudaProfilerApi --trace=cuda,nvtx \\\n"
    "    crema profile --model train_val.prototxt --gpu 0 --iterations 5\n"
    "  crema profile --model train_val.prototxt --trace trace.json [--gpu 0] [--phase TEST]\n"
    "\n"
    "Runs forward, backward and an update (in phase TEST forward alone). On a GPU, each\n"
    "iteration, pass, layer and update is a range (NVTX) that Nsight Systems shows above the\n"
    "kernels; the first iterations, which take memory and choose kernels, have none. --trace\n"
    "writes the times of the layers, on a GPU both when the host gave their work and when the\n"
    "device did it.",
    {"model", "trace",         "overwrite", "weights", "strict",      "iterations", "forward_only",
     "gpu",   "threads",       "engine",    "tune",    "tuning_file", "seed",       "plugin",
     "fuse",  "memory_budget", "phase",     "level",   "stage",       "device_jpeg"},
    profile,
    1,
    NetUse::runs};

}  // namespace crema::tools
