// The training loop.
#include "solver/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <numeric>

#include "core/data_source.hpp"
#include "core/memory_error.hpp"
#include "core/spans.hpp"
#include "crema/debug_info.hpp"
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
#include "solver/batch_halving.hpp"
#include "solver/early_stop.hpp"
#include "solver/epochs.hpp"
#include "solver/gradient_exchange.hpp"
#include "solver/idle_settings.hpp"
#include "solver/in_test_net.hpp"
#include "solver/named_sizes.hpp"
#include "solver/overrides.hpp"
#include "solver/rate_policy.hpp"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_files.hpp"
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
  const std::shared_ptr<NetParameter> changed = message_of(net, solver);
  std::vector<std::string> lines;
  try {
    lines = overrides.apply(*changed, net.source, net.options);
  } catch (Error& error) {
    error.at({net.source.file(), 0, 0});
    throw;
  }
  net.changed = changed;
  return lines;
}

}  // namespace

/// Adds the time of a call to that of the run, and forgets why an earlier one returned.
class Trainer::Timed {
 public:
  explicit Timed(Trainer& solver) : solver_(solver), is_outer_(!solver.started_) {
    solver.tell_notes();
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
  for (const std::string& line : overrides.undone()) context_.log(Severity::warning, line);
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
    meet();
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
  if (!param.has_max_epochs()) make_policy(source);
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
  early_stop_ = std::make_unique<EarlyStop>(param);
  tries_memory_ = param.on_oom() == SolverParameter::HALVE_BATCH;
  take_processes(options, source);
  if (is_first() && takes_snapshots(param)) {
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
    const std::vector<std::string> of_train = change_net(nets.train, source, overrides);
    std::vector<std::string> of_tests;
    for (NetSource& test : nets.tests) {
      for (std::string& line : change_net(test, source, overrides)) {
        if (std::ranges::count(of_tests, line) == 0) of_tests.push_back(std::move(line));
      }
    }
    overrides.check_found();
    for (const std::string& line : of_train) {
      const bool is_of_all = nets.tests.empty() || std::ranges::count(of_tests, line) > 0;
      context_.log(Severity::info, is_of_all ? line : line + ", in the training net");
    }
    for (const std::string& line : of_tests) {
      if (std::ranges::count(of_train, line) == 0)
        context_.log(Severity::info, line + ", in the test net");
    }
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
  divide_batches(nets.train, source);
  build_training_net(nets.train, source);
  take_epochs(source);
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
  divide_tests();
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

void Trainer::build_training_net(NetSource& train, const SourceMap& source) {
  try {
    net_ = build_net(train, source, context_);
  } catch (const MemoryError& error) {
    if (!tries_memory_) throw;
    std::string halved;
    try {
      const std::shared_ptr<NetParameter> message = message_of(train, source);
      halved = halve_batches(*message, train.options);
      train.changed = message;
    } catch (const Error& reason) {
      throw_not_halved(error, reason);
    }
    with_halved([&] { net_ = build_net(train, source, context_); });
    note_halved(error, halved);
  }
}

void Trainer::make_policy(const SourceMap& source) {
  for (const double percent : param_->stepvalue_percent()) {
    param_->add_stepvalue(static_cast<int>(std::lround(percent / 100 * param_->max_iter())));
  }
  policy_ = std::make_unique<RatePolicy>(*param_, rule_->momentum(), source);
}

void Trainer::take_epochs(const SourceMap& source) {
  if (!param_->has_max_epochs() && !param_->has_test_every_epochs()) return;
  const char* const field = param_->has_max_epochs() ? "max_epochs" : "test_every_epochs";
  const auto length = epoch_length(*net_, param_->iter_size() * world_size());
  if (!length)
    throw Error(field,
                " needs a data layer of the training net that takes each of its records "
                "once in an epoch, and there is none; give ",
                param_->has_max_epochs() ? "max_iter" : "test_interval", " in its place")
        .at(source.position(field));
  std::string said =
      text("an epoch is ", length->iterations(), " iterations: ", length->records,
           " records of layer '", length->layer, "', ", length->iteration, " in an iteration");
  if (param_->has_max_epochs()) {
    const double iterations = iterations_of(param_->max_epochs(), *length);
    if (iterations > INT_MAX)
      throw Error("max_epochs ", param_->max_epochs(), " would be ", iterations,
                  " iterations, more than ", INT_MAX, "; give fewer")
          .at(source.position(field));
    param_->set_max_iter(static_cast<int>(iterations));
    said += text("; max_epochs ", param_->max_epochs(), " are ", param_->max_iter());
    make_policy(source);
  }
  if (param_->has_test_every_epochs()) {
    test_every_ = param_->test_every_epochs() * length->iterations();
    // For whoever asks how many tests there are.
    param_->set_test_interval(
        static_cast<int>(std::clamp<double>(std::round(test_every_), 1, INT_MAX)));
  }
  context_.log(Severity::info, said);
}

void Trainer::prepare_snapshots() {
  keeper_->check(test_nets_);
  early_stop_->check(test_nets_, test_iterations_);
  if (!takes_snapshots(*param_) || !is_first()) return;
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
  // So many processes draw what one draws in as many passes.
  run_.pass = static_cast<uint64_t>(pass * run_.world_size + run_.rank);
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
  const auto length = epoch_length(*net_, param_->iter_size() * world_size());
  if (!length) return {};
  return length->iterations();
}

double Trainer::seconds() const {
  using Seconds = std::chrono::duration<double>;
  if (!started_) return seconds_;
  return seconds_ + Seconds(std::chrono::steady_clock::now() - *started_).count();
}

double Trainer::rate() const {
  return tried_rate_ ? *tried_rate_ : rate_factor_ * policy_->rate(iteration_);
}

bool Trainer::solve() {
  if (!param_->has_max_iter())
    throw Error("the solver has no max_iter; add it, or ask for single steps");
  const Timed timed(*this);
  const int begin = iteration_;
  ends_by_settings_ = true;
  const auto train = [&] {
    return param_->max_iter() <= iteration_ || train_to(param_->max_iter());
  };
  bool done = false;
  try {
    done = train() && finish_run(begin);
  } catch (...) {
    ends_by_settings_ = false;
    throw;
  }
  ends_by_settings_ = false;
  if (done && end_ == SolverEnd::none) end_ = SolverEnd::finished;
  return done;
}

bool Trainer::finish_run(int begin) {
  const bool is_cut = end_ != SolverEnd::none;
  if (param_->max_iter() == 0 || (is_cut && iteration_ == begin)) return true;
  if (param_->snapshot_after_train()) snapshot_once(true);
  if (end_ == SolverEnd::early) return true;  // behind a test
  if (is_cut && origin_->has_tested_at() && origin_->tested_at() == iteration_) return true;
  const bool tests = test_due() || (param_->test_at_end() && !test_nets_.empty());
  return !tests || run_tests();
}

bool Trainer::is_over() {
  if (!ends_by_settings_) return false;
  if (early_stop_->is_over()) {
    end_ = SolverEnd::early;
    note(Severity::info, text("the run ends early, at iteration ", iteration_,
                              ", as early_stop says: ", early_stop_->reason()));
  } else if (param_->max_hours() > 0 && agree(seconds() >= 3600 * param_->max_hours()) != 0) {
    settle(0);
    end_ = SolverEnd::time_over;
    note(Severity::info, text("the run ends at iteration ", iteration_, ", since the ",
                              param_->max_hours(), " hours of max_hours are over"));
  }
  return end_ != SolverEnd::none;
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
  if (param_->on_nan() == SolverParameter::ROLLBACK && keeper_->on_disk().empty() &&
      iteration_ < stop)
    snapshot_once(true);
  while (true) {
    try {
      return loop_to(stop);
    } catch (const NotFiniteError& error) {
      go_back(error);
    }
  }
}

bool Trainer::loop_to(int stop) {
  while (iteration_ < stop) {
    if (asked_to_stop()) return false;
    if (is_over()) return true;
    if (test_due() && (iteration_ > 0 || param_->test_initialization())) {
      if (!run_tests()) return false;
      if (is_over()) return true;
    }
    tries_memory_ ? try_iteration() : advance();
    if (param_->snapshot() > 0 && iteration_ % param_->snapshot() == 0) {
      settle(0);
      snapshot_once(iteration_ == param_->max_iter());
    }
  }
  settle(0);
  return true;
}

void Trainer::advance() {
  if (context_.on_gpu()) return iterate_on_device();
  const IterationReport report = iterate();
  if (hooks_.on_iteration) hooks_.on_iteration(report);
}

bool Trainer::asked_to_stop() {
  const SolverAction action = asked();
  const bool stop = action == SolverAction::stop;
  if (stop) end_ = SolverEnd::stopped;
  if (action != SolverAction::none) settle(0);
  if (action == SolverAction::snapshot || (stop && takes_snapshots(*param_))) snapshot_once(stop);
  return stop;
}

IterationReport Trainer::iterate() {
  const Span span(SpanKind::iteration, [&] { return text("iteration ", iteration_); });
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
  if (hooks_.before_update) {
    if (exchange_) exchange_->finish();
    hooks_.before_update();
  }
  update();
  ++iteration_;
  if (processes_) average_weights();
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (DataSource* source : sources_) {
    report.data_wait += source->take_wait_seconds();
    // Several sources provide parts of the same samples, such as images and labels.
    report.images =
        std::max(report.images, source->records_per_batch() * param_->iter_size() * world_size());
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
    // The others have to hear of it, behind the passes.
    if (!std::isfinite(pass_loss) && !processes_) throw_not_finite(*net_, iteration_, pass_loss);
    loss += pass_loss;
    if (!processes_ || pass + 1 < param_->iter_size()) {
      net_->backward();
      continue;
    }
    begin_exchange(loss / param_->iter_size());
    try {
      net_->backward();
    } catch (...) {
      abandon_exchange();
      throw;
    }
  }
  loss /= param_->iter_size();
  return processes_ ? loss_of_all(loss) : loss;
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
  const Span span(SpanKind::update, [] { return "update"; });
  if (exchange_ && update_by_buckets()) return;
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
  Tensor* const average = average_values();
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

}  // namespace crema
