// The training loop on a device. The host queues an iteration while the device is in the one
// before, and then reads the report of that one (core/device_run.hpp): it waits, but the device has
// work. Where somebody looks at an iteration, it is waited for.
#include <algorithm>
#include <chrono>

#include "core/data_source.hpp"
#include "core/device_run.hpp"
#include "core/spans.hpp"
#include "crema/debug_info.hpp"
#include "crema/parameter_arena.hpp"
#include "data/batches/in_step.hpp"
#include "net/queued.hpp"
#include "proto/solver.pb.h"
#include "solver/rate_policy.hpp"
#include "solver/trainer.hpp"
#include "solver/update_rule.hpp"
#include "solver/weight_average.hpp"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Trainer::iterate_on_device() {
  const uint64_t first_pass = passes_queued_;
  try {
    queue_iteration();
  } catch (...) {
    // What is wrong with an earlier iteration comes first, and then what checks have found in this
    // one: they are of earlier layers.
    settle(0);
    throw_found(first_pass);
    throw;
  }
  settle(is_looked_at(iteration_ - 1) ? 0 : 1);
}

bool Trainer::is_looked_at(int iteration) const {
  const int display = param_->display();
  return (display > 0 && iteration % display == 0) || param_->debug_info() ||
         policy_->reads_losses() || !queues_ahead_ || iteration + 1 == param_->max_iter();
}

void Trainer::queue_iteration() {
  const Span span(SpanKind::iteration, [&] { return text("iteration ", iteration_); });
  const auto start = Clock::now();
  QueuedIteration queued;
  IterationReport& report = queued.report;
  queued.first_pass = passes_queued_;
  report.iteration = iteration_;
  report.max_iterations = param_->max_iter();
  if (param_->debug_info())
    set_debug_info(*net_, param_->display() > 0 && iteration_ % param_->display() == 0);
  if (hooks_.before_iteration) hooks_.before_iteration();
  net_->clear_gradients();
  queues_whole() ? queue_whole() : queue_passes();
  report.rate = rate();
  queued.number = context_.device_run().queue_report();
  ++iteration_;
  for (DataSource* source : sources_) {
    report.data_wait += source->take_wait_seconds();
    report.images = std::max(report.images, source->records_per_batch() * param_->iter_size());
  }
  report.seconds = seconds_since(start);
  queued_.push_back(queued);
}

void Trainer::queue_passes() {
  for (int pass = 0; pass < param_->iter_size(); ++pass) {
    begin_pass(pass);
    try {
      queue_forward(*net_, pass == 0);
    } catch (...) {
      if (has_taken_batches()) note_pass();
      throw;
    }
    note_pass();
    in_step_[0].look();
    net_->backward();
  }
  if (policy_->reads_losses()) observe_now();
  queue_update();
}

bool Trainer::queues_whole() const {
  // Lines of debug_info stand between backward and the update.
  return param_->iter_size() == 1 && !policy_->reads_losses() && !param_->debug_info() &&
         !has_debug_info(*net_);
}

void Trainer::queue_whole() {
  begin_pass(0);
  ParameterArena& arena = net_->params();
  LossScaleState* const scale = device_loss_scale(*net_);
  // What starts to be averaged starts here: no record repeats that, nor leaves it out.
  Tensor* const average = average_values();
  rule_->prepare_update(arena, update_step(), std::max<double>(param_->clip_gradients(), 0));
  try {
    crema::queue_iteration(*net_, [&] {
      arena.settle_gradients();
      rule_->queue_prepared(arena, history_, scale, average);
    });
  } catch (...) {
    if (has_taken_batches()) note_pass();
    throw;
  }
  note_pass();
  in_step_[0].look();
}

Tensor* Trainer::average_values() const {
  return average_ && !tried_rate_ ? &average_->values() : nullptr;
}

void Trainer::observe_now() {
  const DeviceReport found = context_.device_run().report();
  // Of a failure, settle() tells.
  if (found.failure != DeviceFailure::none) return;
  std::vector<double> losses = losses_;
  const double loss = smoothed(found.loss / param_->iter_size());
  losses_ = std::move(losses);
  if (policy_->observe(iteration_, loss)) {
    context_.log(Severity::info, text("Iteration ", iteration_, ", the loss stays at ",
                                      policy_->plateau().minimum, ": lr = ", rate()));
  }
}

void Trainer::queue_update() {
  const Span span(SpanKind::update, [] { return "update"; });
  ParameterArena& arena = net_->params();
  arena.settle_gradients();
  const UpdateInfo shown(*net_);
  rule_->queue_update(arena, history_, update_step(), std::max<double>(param_->clip_gradients(), 0),
                      device_loss_scale(*net_), average_values());
  shown.log();
}

std::vector<RecordCursor> Trainer::positions() const {
  std::vector<RecordCursor> all;
  for (const DataSource* source : sources_) all.push_back(source->cursor());
  return all;
}

bool Trainer::has_taken_batches() const {
  return positions_.empty() || positions_.back() != positions();
}

void Trainer::note_pass() {
  ++passes_queued_;
  positions_.push_back(positions());
  // Those of the iteration that is queued, and of the one before.
  if (positions_.size() > static_cast<size_t>(2 * param_->iter_size())) positions_.pop_front();
}

void Trainer::settle(size_t left) {
  while (queued_.size() > left) {
    const auto start = Clock::now();
    const DeviceReport found = context_.device_run().wait_report(queued_.front().number);
    queued_.back().report.seconds += seconds_since(start);
    QueuedIteration done = std::move(queued_.front());
    queued_.pop_front();
    if (scaler_) follow_scale(done, found);
    if (found.failure != DeviceFailure::none) throw_failure(done, found);
    done.report.loss = found.loss / param_->iter_size();
    done.report.smoothed_loss = smoothed(done.report.loss);
    done_.push_back(done.report);
    tell_done();
  }
}

void Trainer::tell_done() {
  if (telling_) return;  // a hook has asked for what waits
  struct Telling {
    explicit Telling(bool& on) : is_on(on) { is_on = true; }
    ~Telling() { is_on = false; }
    Telling(const Telling&) = delete;
    Telling& operator=(const Telling&) = delete;
    bool& is_on;
  } const telling(telling_);
  while (!done_.empty()) {
    const IterationReport report = done_.front();
    done_.pop_front();
    if (tried_rate_) {
      tried_ = report;
    } else if (hooks_.on_iteration) {
      hooks_.on_iteration(report);
    }
  }
}

void Trainer::throw_found(uint64_t first_pass) {
  const DeviceReport found = context_.device_run().report();
  if (found.failure == DeviceFailure::none) return;
  QueuedIteration failed;
  failed.report.iteration = iteration_;
  failed.first_pass = first_pass;
  throw_failure(failed, found);
}

void Trainer::follow_scale(const QueuedIteration& done, const DeviceReport& found) {
  if (found.skipped != 0) return lower_loss_scale(done.report.iteration);
  if (found.failure == DeviceFailure::none) return follow_updates();
  // The last factor was no help. No other failure is a matter of the scale.
  if (found.failure == DeviceFailure::gradient) scaler_->overflowed();
}

void Trainer::throw_failure(const QueuedIteration& failed, const DeviceReport& found) {
  queued_.clear();
  // No update has followed. The position in the data becomes that behind the batch that failed.
  iteration_ = failed.report.iteration;
  begin_pass(static_cast<int>(found.pass));
  const uint64_t passes = failed.first_pass + found.pass + 1;  // with the one that failed
  const auto later = static_cast<size_t>(passes_queued_ > passes ? passes_queued_ - passes : 0);
  if (later > 0 && later < positions_.size()) {
    positions_.resize(positions_.size() - later);
    passes_queued_ -= later;
    try {
      for (size_t i = 0; i < sources_.size(); ++i) sources_[i]->set_cursor(positions_.back()[i]);
    } catch (const Error& error) {
      context_.log(Severity::warning,
                   text("after the failure not all data sources are set back, and training that "
                        "goes on skips batches: ",
                        error.what()));
    }
  }
  throw_reported(*net_, iteration_, found, static_cast<int>(later));
}

}  // namespace crema
