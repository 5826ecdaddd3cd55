// The training loop.
#include "solver/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <map>
#include <numeric>

#include "core/data_source.hpp"
#include "crema/debug_info.hpp"
#include "data/batches/counted_once.hpp"
#include "data/batches/in_step.hpp"
#include "model/partial_copy.hpp"
#include "model/snapshot_file.hpp"
#include "model/source_map.hpp"
#include "net/not_finite.hpp"
#include "net/queued.hpp"
#include "net/scores.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"
#include "solver/epochs.hpp"
#include "solver/idle_settings.hpp"
#include "solver/named_sizes.hpp"
#include "solver/overrides.hpp"
#include "solver/rate_policy.hpp"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/update_rule.hpp"
#include "solver/weight_average.hpp"

namespace crema {
namespace {

std::unique_ptr<Net> build_net(const NetSource& source, const SourceMap& solver, Context& context) {
  if (source.changed) {
    return std::make_unique<Net>(*source.changed, source.source, context, source.options);
  }
  if (source.inlined) {
    return std::make_unique<Net>(*source.inlined, solver.nested(source.place), context,
                                 source.options);
  }
  return std::make_unique<Net>(source.file, context, source.options);
}

/// The blobs of the net that have scores of classes.
std::vector<std::string> scores_of(const NetSource& net) {
  if (net.changed) return score_blobs(*net.changed, net.options);
  if (net.inlined) return score_blobs(*net.inlined, net.options);
  NetParameter read;
  read_net(net.file, read);
  return score_blobs(read, net.options);
}

/// Sets the fields of the net that the caller gave. Returns lines for the log.
std::vector<std::string> change_net(NetSource& net, const SourceMap& solver, Overrides& overrides) {
  auto changed = std::make_shared<NetParameter>();
  if (net.inlined) {
    *changed = *net.inlined;
    net.source = solver.nested(net.place);
  } else {
    read_net(net.file, *changed, &net.source);
  }
  std::vector<std::string> lines;
  try {
    lines = overrides.apply(*changed, net.source, net.options);
  } catch (Error& error) {
    error.at({net.source.file(), 0, 0});
    throw;
  }
  net.changed = std::move(changed);
  return lines;
}

/// Runs `body`. Adds the number of the test net to an Error, because test nets and the training net
/// are often in the same file.
template <class Body>
decltype(auto) in_test_net(size_t number, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    error.in_net(text("TEST net #", number));
    throw;
  }
}

}  // namespace

/// Keeps, during a test, the positions of the data sources and what layers carried before it. A
/// snapshot within a test saves these, so that a resumed run repeats the test on the same data.
class Trainer::TestScope {
 public:
  explicit TestScope(Trainer& solver) : solver_(solver) {
    solver.before_test_ = std::make_unique<RecordCursors>(data_cursors(solver.training_state()));
  }
  ~TestScope() {
    if (!completed_) set_back();
    solver_.before_test_.reset();
  }
  TestScope(const TestScope&) = delete;
  TestScope& operator=(const TestScope&) = delete;

  /// Otherwise sources and layers are set back in the end.
  void complete() { completed_ = true; }

 private:
  void set_back() {
    try {
      set_data_cursors(solver_.training_state(), *solver_.before_test_);
    } catch (const Error& error) {
      solver_.context_.log(Severity::warning,
                           text("after the stopped test not all data sources are set back, and "
                                "training goes on with other batches: ",
                                error.what()));
    }
  }

  Trainer& solver_;
  bool completed_ = false;
};

/// Adds the time of a call to that of the run, and forgets why an earlier one returned.
class Trainer::Timed {
 public:
  explicit Timed(Trainer& solver) : solver_(solver), is_outer_(!solver.started_) {
    if (!is_outer_) return;  // a hook has called
    solver.end_ = SolverEnd::none;
    solver.started_ = std::chrono::steady_clock::now();
  }
  ~Timed() {
    if (!is_outer_) return;
    solver_.seconds_ = solver_.seconds();
    solver_.started_.reset();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Trainer& solver_;
  bool is_outer_;
};

Trainer::Trainer(const SolverParameter& param, const SourceMap& source, Context& context,
                 const SolverOptions& options, const Solver& hooks)
    : context_(context), hooks_(hooks) {
  build(param, source, options);
}

Trainer::~Trainer() = default;

void Trainer::build(const SolverParameter& given, const SourceMap& source,
                    const SolverOptions& options) {
  Overrides overrides(options.set);
  origin_ = std::make_unique<Origin>();
  origin_->mutable_setting()->Assign(options.set.begin(), options.set.end());
  origin_->mutable_frozen()->Assign(options.freeze.begin(), options.freeze.end());
  if (options.set.empty()) return build_from(given, source, options, overrides);
  SolverParameter param = given;
  SourceMap places = source;
  log_lines(overrides.apply(param, places));
  build_from(param, places, options, overrides);
}

void Trainer::log_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) context_.log(Severity::info, line);
}

void Trainer::build_from(const SolverParameter& param, const SourceMap& source,
                         const SolverOptions& options, Overrides& overrides) {
  try {
    take_settings(param, source, options);
    build_nets(param, source, options, overrides);
    for (int i = 0; i < rule_->history_count(); ++i) {
      history_.emplace_back(Shape{net_->params().size()}, net_->params().dtype());
    }
    if (param.ema_decay() > 0) average_ = std::make_unique<WeightAverage>(*net_);
    prepare_snapshots();
  } catch (Error& error) {
    error.at({source.file(), 0, 0});
    throw;
  }
}

void Trainer::take_settings(const SolverParameter& param, const SourceMap& source,
                            const SolverOptions& options) {
  param_ = std::make_unique<SolverParameter>();
  // Nets in the message may contain weights, and are not needed later.
  copy_without(param,
               {SolverParameter::kNetParamFieldNumber, SolverParameter::kTrainNetParamFieldNumber,
                SolverParameter::kTestNetParamFieldNumber},
               *param_);
  for (const auto& note : check_settings(param, source)) context_.log(Severity::warning, note);
  rule_ = std::make_unique<UpdateRule>(param, context_, source);
  policy_ = std::make_unique<RatePolicy>(param, rule_->momentum(), source);
  asked_seed_ = options.seed;
  for (const auto& note : rule_->notes(param)) context_.log(Severity::warning, note);
  if (param.has_solver_type()) {
    context_.log(Severity::info, text("solver_type is the old form of type; `crema "
                                      "upgrade-solver-proto-text ",
                                      source.file().empty() ? "OLD" : source.file(),
                                      " NEW` writes the current one"));
  }
  losses_.reserve(static_cast<size_t>(param.average_loss()));
  solver_file_ = source.file();
  prefix_ = snapshot_prefix(param, solver_file_);
  keeper_ = std::make_unique<SnapshotKeeper>(param, prefix_);
  if (takes_snapshots(param)) {
    // That of an installed model is made when the nets are known to work.
    if (!is_folder_of_model(prefix_)) check_snapshot_place(prefix_, param, 0, 0, 0);
  }
  run_.seed = context_.seed();
  if (param.random_seed() >= 0) run_.seed = static_cast<uint64_t>(param.random_seed());
  if (asked_seed_) run_.seed = *asked_seed_;
}

void Trainer::build_nets(const SolverParameter& param, const SourceMap& source,
                         const SolverOptions& options, Overrides& overrides) {
  SolverNets nets = resolve_nets(param, options, source);
  if (overrides.change_nets()) {
    std::vector<std::string> lines = change_net(nets.train, source, overrides);
    for (NetSource& test : nets.tests) {
      for (std::string& line : change_net(test, source, overrides)) {
        if (std::ranges::count(lines, line) == 0) lines.push_back(std::move(line));
      }
    }
    overrides.check_found();
    log_lines(lines);
  }
  nets.train.options.run = &run_;
  nets.train.options.weights = options.weights ? *options.weights : weight_files(param);
  nets.train.options.strict = options.strict_weights;
  nets.train.options.freeze = options.freeze;
  nets.train.options.memory_budget = options.memory_budget;
  nets.train.options.graphs = options.graphs;
  queues_ahead_ = options.queues_ahead;
  nets.train.options.parameter_copies = rule_->history_count() + (param.ema_decay() > 0 ? 1 : 0);
  if (param.debug_info()) nets.train.options.fuse = false;
  nets.train.options.keep_all = options.keep_all;
  net_ = build_net(nets.train, source, context_);
  const auto is_f16 = [](const Layer* layer) { return layer->activations() == DType::f16; };
  if (!param.has_loss_scale() && std::ranges::any_of(net_->layers(), is_f16)) scaler_.emplace();
  set_loss_scale(scaler_ ? scaler_->scale() : param.loss_scale());
  for (const NetSource& test : nets.tests) {
    NetSource shared = test;
    shared.options.share_params_with = net_.get();
    shared.options.share_all = true;
    shared.options.keep_all = options.keep_all;
    shared.options.run = &run_;
    shared.options.graphs = options.graphs;
    if (options.keep_scores) shared.options.keep = scores_of(shared);
    if (param.debug_info()) shared.options.fuse = false;
    in_test_net(test_nets_.size(), [&] {
      test_nets_.push_back(build_net(shared, source, context_));
      check_named_sizes(*test_nets_.back());
    });
    if (param.debug_info()) set_debug_info(*test_nets_.back(), true);
  }
  test_iterations_ = nets.test_iterations;
  for (size_t n = 0; param.eval_type() == "detection" && n < test_nets_.size(); ++n) {
    if (detection_outputs(*test_nets_[n]).empty())
      throw Error("eval_type \"detection\": test net ", n,
                  " has no DetectionEvaluate layer whose top is an output; add one, or remove "
                  "eval_type")
          .at(source.position("eval_type"));
  }
  warn_of_detection_settings(param, test_nets_, context_);
  warn_if_idle(*net_, options.needs_loss);
  for (Layer* layer : net_->layers()) {
    if (DataSource* data = layer->data_source()) sources_.push_back(data);
  }
  if (context_.on_gpu()) {
    // A failure in the first pass of an iteration shows when the next one is queued.
    for (DataSource* data : sources_) data->keep_batches(2 * param_->iter_size() - 1);
    if (param_->iter_size() > 1)
      note_update_apart(*net_, text("iter_size is ", param_->iter_size()));
    if (policy_->reads_losses()) note_update_apart(*net_, "lr_policy reads each loss before it");
  }
  const auto log = [this](Severity severity, const std::string& text) {
    context_.log(severity, text);
  };
  in_step_.emplace_back(net_->layers(), "TRAIN net", log);
  for (size_t n = 0; n < test_nets_.size(); ++n)
    in_step_.emplace_back(test_nets_[n]->layers(), text("TEST net #", n), log);
}

void Trainer::prepare_snapshots() {
  keeper_->check(test_nets_);
  if (!takes_snapshots(*param_)) return;
  make_folder_of_model(prefix_);
  const std::string note = check_snapshot_place(
      prefix_, *param_, saved_bytes(*net_, param_->snapshot_diff()),
      net_->params().data().bytes() * history_.size(), average_ ? saved_bytes(*net_, false) : 0);
  if (!note.empty()) context_.log(Severity::warning, note);
  if (param_->snapshot_format() == SolverParameter::HDF5) {
    std::vector<Hdf5Layer> layers;
    for (const auto& [name, parameters] : net_->saved_layers()) {
      if (parameters == 0 && name.empty()) continue;
      layers.push_back({name, static_cast<int>(parameters)});
    }
    const std::string foreign = check_hdf5_layers(layers);
    if (!foreign.empty()) context_.log(Severity::warning, foreign);
  }
  remove_unfinished(prefix_);
}

void Trainer::begin_pass(int pass) {
  run_.iteration = static_cast<uint64_t>(iteration_);
  run_.pass = static_cast<uint64_t>(pass);
}

void Trainer::set_loss_scale(double scale) {
  settle(0);
  net_->set_loss_scale(scale);
  loss_scale_ = scale;
  if (!scaler_) return;
  if (scaler_->scale() != scale) scaler_.emplace(scale);
  if (context_.on_gpu()) follow_gradients(*net_, *scaler_);
}

int Trainer::max_iterations() const { return param_->max_iter(); }

std::optional<double> Trainer::iterations_of_epoch() const {
  const auto length = epoch_length(*net_, param_->iter_size());
  if (!length) return {};
  return length->iterations();
}

double Trainer::seconds() const {
  using Seconds = std::chrono::duration<double>;
  if (!started_) return seconds_;
  return seconds_ + Seconds(std::chrono::steady_clock::now() - *started_).count();
}

double Trainer::rate() const { return policy_->rate(iteration_); }

bool Trainer::solve() {
  if (!param_->has_max_iter())
    throw Error("the solver has no max_iter; add it, or ask for single steps");
  const Timed timed(*this);
  if (param_->max_iter() > iteration_ && !train_to(param_->max_iter())) return false;
  if (param_->max_iter() > 0 && !finish_run()) return false;
  end_ = SolverEnd::finished;
  return true;
}

bool Trainer::finish_run() {
  if (param_->snapshot_after_train()) snapshot_once(true);
  const bool tests = test_due() || (param_->test_at_end() && !test_nets_.empty());
  return !tests || run_tests();
}

bool Trainer::step(int iterations) {
  const int64_t stop = int64_t{iteration_} + iterations;
  if (stop > INT_MAX)
    throw Error("cannot train ", iterations, " iterations after iteration ", iteration_,
                ": the last one would be beyond ", INT_MAX);
  const Timed timed(*this);
  if (!train_to(static_cast<int>(stop))) return false;
  end_ = SolverEnd::finished;
  return true;
}

bool Trainer::train_to(int stop) {
  while (iteration_ < stop) {
    if (asked_to_stop()) return false;
    if (test_due() && (iteration_ > 0 || param_->test_initialization()) && !run_tests()) {
      return false;
    }
    if (context_.on_gpu()) {
      iterate_on_device();
    } else {
      const IterationReport report = iterate();
      if (hooks_.on_iteration) hooks_.on_iteration(report);
    }
    if (param_->snapshot() > 0 && iteration_ % param_->snapshot() == 0) {
      settle(0);
      snapshot_once(iteration_ == param_->max_iter());
    }
  }
  settle(0);
  return true;
}

bool Trainer::asked_to_stop() {
  const SolverAction action = hooks_.poll ? hooks_.poll() : SolverAction::none;
  const bool stop = action == SolverAction::stop;
  if (stop) end_ = SolverEnd::stopped;
  if (action != SolverAction::none) settle(0);
  if (action == SolverAction::snapshot || (stop && takes_snapshots(*param_))) snapshot_once(stop);
  return stop;
}

IterationReport Trainer::iterate() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  IterationReport report;
  report.iteration = iteration_;
  report.max_iterations = param_->max_iter();
  // As published: where the iteration is displayed. A program may ask for it by itself.
  if (param_->debug_info())
    set_debug_info(*net_, param_->display() > 0 && iteration_ % param_->display() == 0);
  if (hooks_.before_iteration) hooks_.before_iteration();
  report.loss = run_passes();
  report.smoothed_loss = smoothed(report.loss);
  if (policy_->observe(iteration_, report.smoothed_loss)) {
    context_.log(Severity::info, text("Iteration ", iteration_, ", the loss stays at ",
                                      policy_->plateau().minimum, ": lr = ", rate()));
  }
  report.rate = rate();
  if (hooks_.before_update) hooks_.before_update();
  update();
  ++iteration_;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (DataSource* source : sources_) {
    report.data_wait += source->take_wait_seconds();
    // Several sources provide parts of the same samples, such as images and labels.
    report.images = std::max(report.images, source->records_per_batch() * param_->iter_size());
  }
  return report;
}

double Trainer::run_passes() {
  net_->clear_gradients();
  const LooksAtLosses looks(*net_);
  double loss = 0;
  for (int pass = 0; pass < param_->iter_size(); ++pass) {
    begin_pass(pass);
    const double pass_loss = net_->forward();
    in_step_[0].look();
    if (!std::isfinite(pass_loss)) throw_not_finite(*net_, iteration_, pass_loss);
    loss += pass_loss;
    net_->backward();
  }
  return loss / param_->iter_size();
}

double Trainer::smoothed(double loss) {
  const auto window = static_cast<size_t>(param_->average_loss());
  if (losses_.size() >= window) losses_.erase(losses_.begin());
  losses_.push_back(loss);
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

UpdateStep Trainer::update_step() const {
  UpdateStep step;
  step.iteration = iteration_;
  step.rate = rate();
  step.momentum = policy_->momentum(iteration_);
  step.weight_decay = policy_->weight_decay(iteration_);
  step.average_decay = average_decay(*param_, iteration_);
  step.gradient_scale = 1.0 / param_->iter_size();
  return step;
}

void Trainer::update() {
  ParameterArena& arena = net_->params();
  arena.settle_gradients();
  double norm = 0;
  if (scaler_ || param_->clip_gradients() > 0) norm = rule_->gradient_norm(arena) / loss_scale_;
  if (scaler_ && !std::isfinite(norm)) return lower_loss_scale(iteration_);
  UpdateStep step = update_step();
  step.gradient_scale /= loss_scale_;
  if (param_->clip_gradients() > 0) {
    if (!std::isfinite(norm)) throw_not_finite_gradient(*net_, iteration_);
    if (norm > param_->clip_gradients()) step.gradient_scale *= param_->clip_gradients() / norm;
  }
  Tensor* const average = average_ ? &average_->values() : nullptr;
  const UpdateInfo shown(*net_);
  if (!rule_->update(arena, history_, step, average)) throw_not_finite_gradient(*net_, iteration_);
  shown.log();
  if (scaler_) follow_updates();
}

void Trainer::lower_loss_scale(int iteration) {
  if (!scaler_->overflowed()) throw_not_finite_gradient(*net_, iteration);
  take_loss_scale();
  context_.log(Severity::info, text("Iteration ", iteration,
                                    ": a gradient left the range of f16, so there is no update; ",
                                    "loss_scale = ", loss_scale_));
}

void Trainer::follow_updates() {
  scaler_->updated();
  take_loss_scale();
}

void Trainer::take_loss_scale() {
  loss_scale_ = scaler_->scale();
  context_.on_gpu() ? note_loss_scale(*net_, loss_scale_) : net_->set_loss_scale(loss_scale_);
}

bool Trainer::test_due() const {
  return param_->test_interval() > 0 && iteration_ % param_->test_interval() == 0;
}

struct Trainer::TestSums {
  explicit TestSums(const Net& net) : counted_once(net.layers()) {
    for (const std::string& output : net.outputs()) means[output];
    for (const std::string& output : row_outputs(net)) means.erase(output);
    for (const std::string& output : detection_outputs(net)) detections[output];
  }

  std::map<std::string, DetectionScores> detections;  // of outputs of DetectionEvaluate
  std::map<std::string, std::vector<double>> means;   // of each value
  CountedOnce counted_once;  // an image that comes again does not count in detections again
  int batches = 0;
};

std::vector<TestReport> Trainer::test() {
  settle(0);
  stopped_behind_tests_ = false;
  std::vector<TestReport> reports;
  TestScope scope(*this);
  const WeightAverage::InNet averaged(average_.get(), param_->ema_test());
  for (size_t n = 0; n < test_nets_.size(); ++n) {
    if (test_iterations_[n] == 0) continue;
    TestReport report;
    report.iteration = iteration_;
    report.net = static_cast<int>(n);
    TestSums sums(*test_nets_[n]);
    for (int batch = 0; batch < test_iterations_[n]; ++batch) {
      if (asked_to_stop()) return reports;
      begin_pass(batch);
      in_test_net(n, [&] { test_batch(report, sums); });
    }
    report_outputs(sums, report);
    report.is_best = keeper_->better(report).has_value();
    if (hooks_.on_test) hooks_.on_test(report);
    reports.push_back(std::move(report));
  }
  scope.complete();
  remember_test(reports);
  // Within the scope: the positions in the data before the test go into the snapshot.
  keep_best(reports);
  // Who decides by the result does not wait for another iteration.
  stopped_behind_tests_ = !reports.empty() && asked_to_stop();
  return reports;
}

void Trainer::warn_of_no_mean(const std::string& output, int net, size_t values, size_t others) {
  if (output == param_->snapshot_best() && net == param_->snapshot_best_net())
    throw Error("snapshot_best '", output, "' has ", values, " values in one batch of test net ",
                net, " and ", others, " in another; name an output of one value");
  if (!without_mean_.insert({net, output}).second) return;
  context_.log(Severity::warning, text("'", output, "' of test net ", net, " has ", values,
                                       " values in one batch and ", others,
                                       " in another, so no mean of it is reported"));
}

void Trainer::test_batch(TestReport& report, TestSums& sums) {
  const auto n = static_cast<size_t>(report.net);
  Net& net = *test_nets_[n];
  const int batches = test_iterations_[n];
  sums.counted_once.next_batch();
  report.loss += net.forward() / batches;
  in_step_[n + 1].look();
  for (auto& [output, scores] : sums.detections) scores.add(net.output(output));
  // An output behind rows whose number differs from batch to batch has no mean either.
  for (auto entry = sums.means.begin(); entry != sums.means.end();) {
    auto& [output, means] = *entry;
    const Tensor values = net.output(output);
    const auto count = static_cast<size_t>(values.count());
    if (sums.batches == 0) means.assign(count, 0);
    if (means.size() != count) {
      warn_of_no_mean(output, report.net, means.size(), count);
      entry = sums.means.erase(entry);
      continue;
    }
    for (size_t i = 0; i < count; ++i) means[i] += values.at(static_cast<int64_t>(i)) / batches;
    ++entry;
  }
  ++sums.batches;
}

void Trainer::report_outputs(const TestSums& sums, TestReport& report) {
  Net& net = *test_nets_[static_cast<size_t>(report.net)];
  const ApVersion version = ap_version(param_->ap_version());
  const bool names_classes = param_->show_per_class_result() && !sums.detections.empty();
  const LabelNames names = names_classes ? class_names(net) : LabelNames();
  for (const std::string& name : net.outputs()) {
    if (const auto found = sums.means.find(name); found != sums.means.end()) {
      for (size_t i = 0; i < found->second.size(); ++i)
        report.outputs.push_back(
            {name, static_cast<int>(i), found->second[i], net.loss_weight(name)});
    }
    const auto found = sums.detections.find(name);
    if (found == sums.detections.end()) continue;
    const std::optional<double> mean = found->second.mean(version);
    if (!mean) {
      context_.log(Severity::warning, text("'", name, "' of test net ", report.net,
                                           ": no batch had a true box; its mean average "
                                           "precision is given as 0"));
    }
    report.outputs.push_back({name, 0, mean.value_or(0), 0});
    if (!param_->show_per_class_result()) continue;
    for (const DetectionScores::Class& one : found->second.classes(version)) {
      report.classes.push_back(
          {name, one.label, one.average_precision, class_name(names, one.label)});
    }
  }
}

}  // namespace crema
