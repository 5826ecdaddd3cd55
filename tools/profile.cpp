// crema profile: what each thread does in some iterations, and what each layer costs.
#include "analysis/profile.hpp"

#include <cstdio>
#include <memory>

#include "analysis/device_times.hpp"
#include "analysis/trace.hpp"
#include "core/split_list.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "model/whole_file.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"
#include "tools/peak.hpp"
#include "tools/profile_table.hpp"
#include "tools/trial_solver.hpp"

DECLARE_bool(forward_only);
DECLARE_string(o);
DECLARE_string(solver);
DEFINE_string(trace, "",
              "The same as -o: write what each thread did to this file, a trace in JSON that "
              "ui.perfetto.dev, chrome://tracing and TensorBoard show.");

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

/// What is profiled: a net, with an update of its own or as a solver trains it.
struct Profiled {
  std::unique_ptr<Solver> solver;
  std::unique_ptr<Net> alone;
  std::unique_ptr<PlainUpdate> update;
  Net& net() { return solver ? solver->net() : *alone; }
};

Profiled build(Context& context, const SolverParameter& param, const SourceMap& source) {
  Profiled profiled;
  const std::vector<std::string> weights = split_list(FLAGS_weights);
  log_planning(FLAGS_solver.empty() ? "net" : "nets");
  if (!FLAGS_solver.empty()) {
    SolverOptions options = solver_options();
    if (!weights.empty()) options.weights = weights;
    options.strict_weights = FLAGS_strict;
    options.graphs = false;
    profiled.solver = std::make_unique<Solver>(param, source, context, std::move(options));
    profiled.solver->on_iteration = [](const IterationReport&) { record_memory(); };
    return profiled;
  }
  NetOptions options = net_options(Phase::train);
  options.weights = weights;
  options.strict = FLAGS_strict;
  profiled.alone = std::make_unique<Net>(FLAGS_model, context, std::move(options));
  Net& net = *profiled.alone;
  if (net.phase() == Phase::train && !FLAGS_forward_only && net.params().size() > 0)
    profiled.update = std::make_unique<PlainUpdate>(net);
  return profiled;
}

CostLimits limits_of(const Context& context, const Net& net) {
  if (!context.on_gpu()) return cpu_limits(context.threads());
  const DeviceCeilings ceilings = measure_ceilings(context.backend());
  const bool tf32 = !net.layers().empty() && net.layers().front()->arithmetic().math == Math::tf32;
  return {.f32 = ceilings.f32,
          .tf32 = ceilings.tf32,
          .bf16 = ceilings.bf16,
          .multiplies_in_tf32 = tf32,
          .copies = {{0, ceilings.copy_bytes}}};
}

/// The file that the trace goes to; "" for none.
std::string trace_file() {
  exclusive_flags("o", !FLAGS_o.empty(), "trace", !FLAGS_trace.empty());
  const std::string& file = FLAGS_o.empty() ? FLAGS_trace : FLAGS_o;
  if (file.empty()) return file;
  std::vector<std::string> inputs;
  for (const std::string& input : {FLAGS_model, FLAGS_solver}) {
    if (!input.empty()) inputs.push_back(input);
  }
  check_replaced(file, inputs);
  check_output_file(file, "the trace");
  return file;
}

void write_trace(const Net& net, const ProfileRun& run, const std::string& path) {
  WholeFile file(path);
  file.append(trace_json(net, run));
  file.finish();
}

int profile(const std::vector<std::string>& arguments) {
  refuse_arguments("profile", arguments, "give the net with --model=FILE");
  exclusive_flags("model", !FLAGS_model.empty(), "solver", !FLAGS_solver.empty());
  if (FLAGS_solver.empty()) required_flag("model", FLAGS_model);
  for (const char* flag : {"forward_only", "phase"}) {
    if (!FLAGS_solver.empty() && is_given(flag))
      throw Error("--", flag,
                  " is for a net alone; give it with --model, or leave it out: a "
                  "solver trains");
  }
  const int iterations = is_given("iterations") ? FLAGS_iterations : kIterations;
  if (iterations <= 0) throw Error("--iterations ", iterations, " must be at least 1");
  const std::string trace = trace_file();
  SolverParameter param;
  SourceMap source;
  if (!FLAGS_solver.empty()) {
    read_text_proto(FLAGS_solver, param, &source);
    keep_training_alone(param);
    param.clear_display();
  }
  Context context(context_options(
      param.has_solver_mode() && param.solver_mode() == SolverParameter::GPU, param.device_id()));
  Profiled profiled = build(context, param, source);
  Net& net = profiled.net();
  const CostLimits limits = limits_of(context, net);

  Profile wanted{.iterations = iterations,
                 .with_backward = net.phase() == Phase::train && !FLAGS_forward_only};
  if (profiled.solver) wanted.iterate = [&](int count) { profiled.solver->step(count); };
  if (profiled.update) wanted.update = [&] { profiled.update->run(); };
  const ProfileRun run = profile_net(net, wanted);
  const LayerCosts costs = layer_costs(net, run, limits);
  print_costs(net, costs, limits, iterations);
  std::printf("%d iterations", iterations);
  if (context.on_gpu())
    std::printf(
        " with a range (NVTX) for each iteration, pass, layer and update; `nsys profile "
        "--capture-range=cudaProfilerApi --trace=cuda,nvtx crema profile ...` records them alone");
  if (!trace.empty()) {
    write_trace(net, run, trace);
    std::printf("; %s shows what each thread did", trace.c_str());
    if (!run.no_activities.empty())
      std::printf(", and no kernels of the device: %s", run.no_activities.c_str());
  }
  std::printf("\n");
  if (FLAGS_json) std::printf("%s\n", costs_json(net, costs, limits, iterations).c_str());
  return 0;
}

}  // namespace

extern const Command kProfile = {
    "profile",
    "shows what each thread does in some iterations, and what bounds each layer",
    "  crema profile --solver solver.prototxt -o trace.json\n"
    "  crema profile --model train_val.prototxt [-o trace.json] [--gpu 0] [--phase TEST] [--json]\n"
    "  nsys profile --capture-range=cudaProfilerApi --trace=cuda,nvtx \\\n"
    "    crema profile --model train_val.prototxt --gpu 0 --iterations 5\n"
    "\n"
    "Runs forward, backward and an update by SGD (in phase TEST forward alone), or with --solver\n"
    "iterations as train does, without tests and snapshots. Three iterations run first.\n"
    "\n"
    "The table has a line for each layer, the slowest first: its time and its share of the\n"
    "iteration, its GFLOP and GFLOP/s with their share of the machine's multiply-adds (peak), the\n"
    "MB that it reads and writes at the least, each value and weight once, with their share of\n"
    "what copies of as many bytes move (copy), and what bounds it: compute or memory, whichever\n"
    "explains more of the time, or overhead, where each explains less than a quarter. Lines\n"
    "without a type are no layers. Both limits are measured first. All times add up.\n"
    "\n"
    "-o writes what each thread did, for ui.perfetto.dev, chrome://tracing and TensorBoard: "
    "passes,\n"
    "layers with their shapes and engines, conversions, sums of diffs, the update, and the\n"
    "threads that load data, with the batches that are ready and the memory. On a GPU, layers\n"
    "are there twice, when the host gave their work and when the device did it, and kernels and\n"
    "copies besides where CUPTI is there.\n"
    "\n"
    "On a GPU, each iteration, pass, layer and update is a range (NVTX) that Nsight Systems shows\n"
    "above the kernels.",
    {"model",       "solver",       "o",      "trace", "overwrite", "weights", "strict",
     "iterations",  "forward_only", "json",   "gpu",   "threads",   "engine",  "tune",
     "tuning_file", "seed",         "plugin", "fuse",  "phase",     "level",   "stage",
     "device_jpeg", "memory_budget"},
    profile,
    1,
    NetUse::runs};

}  // namespace crema::tools
