// The training loop.
#include "crema/solver.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>

#include "data/data_source.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/finite.hpp"
#include "solver/rate_policy.hpp"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/update_rule.hpp"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Mean of the last `window` losses, as published.
class SmoothedLoss {
 public:
  explicit SmoothedLoss(int window) : window_(static_cast<size_t>(window)) {}
  double add(double loss) {
    losses_.push_back(loss);
    if (losses_.size() > window_) losses_.pop_front();
    return std::accumulate(losses_.begin(), losses_.end(), 0.0) /
           static_cast<double>(losses_.size());
  }
  void clear() { losses_.clear(); }

 private:
  size_t window_;
  std::deque<double> losses_;
};

std::unique_ptr<Net> build_net(const NetSource& source, const SourceMap& solver, Context& context) {
  if (source.inlined) {
    return std::make_unique<Net>(*source.inlined, solver.nested(source.place), context,
                                 source.options);
  }
  return std::make_unique<Net>(source.file, context, source.options);
}

/// Runs `body`; its Error says which of the test nets it is about, which mostly stand in the same
/// file as the training net.
template <class Body>
decltype(auto) in_test_net(size_t number, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    error.in_net(concat("TEST net #", number));
    throw;
  }
}

}  // namespace

struct Solver::Impl {
  Impl(const SolverParameter& solver, Context& where, const SolverOptions& how,
       const SourceMap& map)
      : param(solver),
        context(where),
        policy(param),
        rule(make_update_rule(param, context)),
        seed(how.seed),
        smoothed(std::max(1, param.average_loss())) {
    std::vector<std::string> notes;
    check_settings(param, notes);
    for (const auto& note : notes) context.log(Severity::warning, note);
    prefix = snapshot_prefix(param, map.file());
    if (snapshots()) check_snapshot_place(prefix, 0);
    if (param.random_seed() >= 0) context.set_seed(static_cast<uint64_t>(param.random_seed()));
    if (seed) context.set_seed(*seed);
    run_seed = context.seed();

    const SolverNets nets = resolve_nets(param, how, map.file());
    context.set_iteration(0);
    context.set_pass(0);
    train = build_net(nets.train, map, context);
    for (const NetSource& source : nets.tests) {
      NetSource shared = source;
      shared.options.share_params_with = train.get();
      shared.options.share_all = true;
      in_test_net(tests.size(), [&] { tests.push_back(build_net(shared, map, context)); });
    }
    test_iterations = nets.test_iterations;
    load_first_weights(how.weights ? *how.weights : weight_files(param), how.strict_weights);
    for (int i = 0; i < rule->history_count(); ++i) {
      history.emplace_back(Shape{train->params().size()}, train->params().dtype());
    }
    if (snapshots()) {
      const size_t once = train->params().data().bytes();
      const size_t weights = once * (param.snapshot_diff() ? 2 : 1), state = once * history.size();
      check_snapshot_size(std::max(weights, state));
      check_snapshot_place(prefix, weights + state);
      remove_unfinished(prefix);
    }
    for (Layer* layer : train->layers()) {
      if (auto* source = dynamic_cast<DataSource*>(layer)) sources.push_back(source);
    }
  }

  void load_first_weights(const std::vector<std::string>& files, bool strict) {
    std::set<std::string> missing, unused;
    for (size_t i = 0; i < files.size(); ++i) {
      const LoadReport report = train->load_weights(files[i]);
      context.log(Severity::info, concat("Finetuning from ", files[i], ": ", report.str()));
      unused.insert(report.unused.begin(), report.unused.end());
      std::set<std::string> here(report.missing.begin(), report.missing.end());
      if (i == 0) missing = here;
      std::erase_if(missing, [&](const std::string& name) { return here.count(name) == 0; });
    }
    if (!strict || (missing.empty() && unused.empty())) return;
    LoadReport rest;
    rest.missing.assign(missing.begin(), missing.end());
    rest.unused.assign(unused.begin(), unused.end());
    throw Error("the weights do not fit the net exactly (strict): ", rest.str());
  }

  /// Another solver, or the caller, may have used the context meanwhile.
  void take_context() {
    context.set_seed(run_seed);
    context.set_iteration(static_cast<uint64_t>(iteration));
    context.set_pass(0);
  }

  bool snapshots() const {
    return param.max_iter() > 0 && (param.snapshot() > 0 || param.snapshot_after_train());
  }

  bool test_due() const {
    return param.test_interval() > 0 && iteration % param.test_interval() == 0;
  }

  RunState run_state() {
    RunState run;
    run.iteration = iteration;
    // As published solvers have it: of the last iteration that was run.
    run.steps_passed = policy.steps_passed(std::max(0, iteration - 1));
    run.seed = run_seed;
    run.history = &history;
    run.train = train.get();
    for (auto& net : tests) run.tests.push_back(net.get());
    run.cursors = before_test;
    return run;
  }

  /// Forward and backward of iter_size batches: the mean loss. Gradients hold their sum.
  double run_passes() {
    train->clear_gradients();
    double loss = 0;
    for (int pass = 0; pass < param.iter_size(); ++pass) {
      context.set_pass(static_cast<uint64_t>(pass));
      const double pass_loss = train->forward();
      if (!std::isfinite(pass_loss)) throw_not_finite(*train, iteration, pass_loss);
      loss += pass_loss;
      train->backward();
    }
    return loss / param.iter_size();
  }

  void update() {
    ParameterArena& arena = train->params();
    arena.settle_gradients();
    UpdateStep step;
    step.iteration = iteration;
    step.rate = policy.rate(iteration);
    step.gradient_scale = 1.0 / param.iter_size();
    if (param.clip_gradients() > 0) {
      const double norm = rule->gradient_norm(arena);
      if (!std::isfinite(norm)) throw_not_finite_gradient(*train, iteration);
      if (norm > param.clip_gradients()) step.gradient_scale *= param.clip_gradients() / norm;
    }
    if (!rule->update(arena, history, step)) throw_not_finite_gradient(*train, iteration);
  }

  /// Adds the next batch of the report's net to it.
  void test_batch(TestReport& report) {
    const auto n = static_cast<size_t>(report.net);
    Net& net = *tests[n];
    const int batches = test_iterations[n];
    report.loss += net.forward() / batches;
    size_t output = 0;
    for (const auto& name : net.outputs()) {
      const Tensor values = net.output(name);
      for (int64_t i = 0; i < values.count(); ++i, ++output) {
        if (output == report.outputs.size()) {
          report.outputs.push_back({name, static_cast<int>(i), 0, net.loss_weight(name)});
        }
        report.outputs[output].value += values.at(i) / batches;
      }
    }
  }

  /// Keeps, while a test runs, where the data sources stood before it.
  struct TestScope {
    explicit TestScope(Impl& impl) : solver(impl) {
      solver.before_test = data_cursors(solver.run_state());
    }
    ~TestScope() { solver.before_test.clear(); }
    TestScope(const TestScope&) = delete;
    TestScope& operator=(const TestScope&) = delete;
    Impl& solver;
  };

  double take_data_wait() {
    double wait = 0;
    for (DataSource* source : sources) wait += source->take_wait_seconds();
    return wait;
  }

  int64_t images_per_pass() const {
    // Several sources feed parts of the same samples, such as images and labels.
    int64_t images = 0;
    for (const DataSource* source : sources) {
      images = std::max(images, source->records_per_batch());
    }
    return images;
  }

  SolverParameter param;
  Context& context;
  RatePolicy policy;
  std::unique_ptr<UpdateRule> rule;
  std::optional<uint64_t> seed;  // asked for
  uint64_t run_seed = 0;
  SmoothedLoss smoothed;
  std::string prefix;
  std::unique_ptr<Net> train;
  std::vector<std::unique_ptr<Net>> tests;
  std::vector<int> test_iterations;
  std::vector<Tensor> history;
  std::vector<DataSource*> sources;
  RecordCursors before_test;  // while one runs
  int iteration = 0;
  int last_snapshot = -1;
};

Solver::Solver(const SolverParameter& param, Context& context, SolverOptions options)
    : impl_(std::make_unique<Impl>(param, context, options, SourceMap())) {}

Solver::Solver(const std::string& prototxt, Context& context, SolverOptions options) {
  SolverParameter param;
  SourceMap map;
  read_text_proto(prototxt, param, &map);
  try {
    impl_ = std::make_unique<Impl>(param, context, options, map);
  } catch (Error& error) {
    error.at({prototxt, 0, 0});
    throw;
  }
}

Solver::~Solver() = default;

Net& Solver::net() { return *impl_->train; }
std::vector<std::unique_ptr<Net>>& Solver::test_nets() { return impl_->tests; }
int Solver::iteration() const { return impl_->iteration; }
double Solver::rate() const { return impl_->policy.rate(impl_->iteration); }

bool Solver::asked_to_stop() {
  Impl& s = *impl_;
  const SolverAction action = poll ? poll() : SolverAction::none;
  const bool save =
      action == SolverAction::snapshot || (action == SolverAction::stop && s.snapshots());
  if (save && s.last_snapshot != s.iteration) snapshot();
  return action == SolverAction::stop;
}

bool Solver::step(int iterations) {
  Impl& s = *impl_;
  const int stop = s.iteration + iterations;
  while (s.iteration < stop) {
    if (asked_to_stop()) return false;
    if (s.test_due() && (s.iteration > 0 || s.param.test_initialization())) {
      std::vector<TestReport> reports;
      if (!run_tests(reports)) return false;
    }

    const auto start = Clock::now();
    s.take_context();
    IterationReport report;
    report.iteration = s.iteration;
    report.max_iterations = s.param.max_iter();
    report.loss = s.run_passes();
    report.smoothed_loss = s.smoothed.add(report.loss);
    report.rate = s.policy.rate(s.iteration);
    s.update();
    ++s.iteration;
    report.seconds = seconds_since(start);
    report.data_wait = s.take_data_wait();
    report.images = s.images_per_pass() * s.param.iter_size();
    if (on_iteration) on_iteration(report);
    if (s.param.snapshot() > 0 && s.iteration % s.param.snapshot() == 0) snapshot();
  }
  return true;
}

bool Solver::solve() {
  Impl& s = *impl_;
  require(s.param.has_max_iter(), "the solver has no max_iter; add it, or ask for single steps");
  if (s.param.max_iter() > s.iteration && !step(s.param.max_iter() - s.iteration)) return false;
  if (s.param.max_iter() == 0) return true;
  if (s.param.snapshot_after_train() && s.last_snapshot != s.iteration) snapshot();
  std::vector<TestReport> reports;
  return !s.test_due() || run_tests(reports);
}

std::vector<TestReport> Solver::test() {
  std::vector<TestReport> reports;
  run_tests(reports);
  return reports;
}

bool Solver::run_tests(std::vector<TestReport>& reports) {
  Impl& s = *impl_;
  s.take_context();
  // Whoever continues from within a test runs it anew, on the data that it began with.
  const Impl::TestScope scope(s);
  for (size_t n = 0; n < s.tests.size(); ++n) {
    TestReport report;
    report.iteration = s.iteration;
    report.net = static_cast<int>(n);
    for (int batch = 0; batch < s.test_iterations[n]; ++batch) {
      if (asked_to_stop()) {
        set_data_cursors(s.run_state(), s.before_test);
        return false;
      }
      in_test_net(n, [&] { s.test_batch(report); });
    }
    if (on_test) on_test(report);
    reports.push_back(std::move(report));
  }
  return true;
}

std::string Solver::snapshot() {
  Impl& s = *impl_;
  const std::string path = write_snapshot(s.prefix, s.run_state(), s.param.snapshot_diff());
  s.last_snapshot = s.iteration;
  if (on_snapshot) on_snapshot(path);
  return path;
}

void Solver::restore(const std::string& solverstate) {
  Impl& s = *impl_;
  SolverState state;
  read_state(solverstate, state);
  try {
    if (state.has_seed() && !s.seed) s.run_seed = state.seed();
    s.context.set_seed(s.run_seed);
    if (state.tuning_size() != 0) {
      // The nets were planned with choices of their own: plan again with those of the run.
      restore_tuning(state, s.context);
      s.train->reshape();
      for (auto& net : s.tests) net->reshape();
    }
    const std::string weights = weights_of(state, solverstate);
    s.train->load_weights(weights, true);
    s.context.log(Severity::info, concat("Weights from ", weights));
    RunState run = s.run_state();
    restore_state(state, run);
    s.iteration = run.iteration;
    s.last_snapshot = run.iteration;
    s.smoothed.clear();
  } catch (Error& error) {
    error.at({solverstate, 0, 0});
    throw;
  }
}

}  // namespace crema
