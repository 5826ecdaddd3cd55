// Trials of a training: of rates, and of sizes of the batch. What they change is set back.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/data_source.hpp"
#include "core/memory_error.hpp"
#include "crema/parameter_arena.hpp"
#include "data/batches/sampled_layer.hpp"
#include "net/batches.hpp"
#include "net/not_finite.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/batch_halving.hpp"
#include "solver/free_memory.hpp"
#include "solver/rate_curve.hpp"
#include "solver/rate_policy.hpp"
#include "solver/snapshot.hpp"
#include "solver/trainer.hpp"
#include "solver/weight_average.hpp"

namespace crema {
namespace {

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.shape(), tensor.dtype());
  copy.copy_from(tensor);
  return copy;
}

}  // namespace

/// Keeps what training changes, and sets it back in the end.
class Trainer::TrialScope {
 public:
  explicit TrialScope(Trainer& solver)
      : solver_(solver),
        values_(copy_of(solver.net_->params().data())),
        cursors_(data_cursors(solver.training_state())),
        plateau_(solver.policy_->plateau()),
        losses_(solver.losses_),
        scaler_(solver.scaler_),
        loss_scale_(solver.loss_scale_),
        iteration_(solver.iteration_) {
    for (const Tensor& history : solver.history_) history_.push_back(copy_of(history));
    solver.tried_rate_ = 0;
  }
  ~TrialScope() { solver_.tried_rate_.reset(); }
  TrialScope(const TrialScope&) = delete;
  TrialScope& operator=(const TrialScope&) = delete;

  void set_back() {
    solver_.net_->params().data().copy_from(values_);
    for (size_t i = 0; i < history_.size(); ++i) solver_.history_[i].copy_from(history_[i]);
    solver_.policy_->set_plateau(plateau_);
    solver_.losses_ = losses_;
    solver_.scaler_ = scaler_;
    solver_.set_loss_scale(loss_scale_);
    solver_.iteration_ = iteration_;
    set_data_cursors(solver_.training_state(), cursors_);
  }

 private:
  Trainer& solver_;
  Tensor values_;  // of all parameters, with statistics
  RecordCursors cursors_;
  RatePolicy::Plateau plateau_;
  std::vector<double> losses_;
  std::optional<LossScaler> scaler_;
  double loss_scale_;
  int iteration_;
  std::vector<Tensor> history_;
};

IterationReport Trainer::tried_iteration() {
  if (!context_.on_gpu()) return iterate();
  queue_iteration();
  settle(0);
  return *tried_;
}

void Trainer::need_one_process() const {
  if (processes_)
    throw Error("rates and batches are tried in one process alone, and these are ",
                run_.world_size);
}

RateCurve Trainer::try_rates(const RateTrial& trial) {
  need_one_process();
  check(trial);
  settle(0);
  RateCurve curve;
  TrialScope scope(*this);
  try {
    for (int step = 0; step < trial.steps && !curve.diverged; ++step) {
      tried_rate_ = rate_of(trial, step);
      try {
        curve.diverged = !add_step(trial, tried_iteration().loss, curve);
      } catch (const NotFiniteError&) {
        curve.diverged = true;
      }
    }
  } catch (...) {
    scope.set_back();
    throw;
  }
  scope.set_back();
  suggest(trial, curve);
  return curve;
}

BatchResult Trainer::try_batch(int64_t batch, const BatchTrial& trial, size_t memory) {
  BatchResult result;
  result.batch = batch;
  for (SampledLayer* source : resizable_sources(*net_)) source->set_batch_size(batch);
  plan_next_batches(*net_);
  const MemoryPlan plan = net_->memory();
  const size_t arrays = history_.size() + (average_ ? 1 : 0);
  result.planned =
      plan.activations + plan.parameters + plan.engines + arrays * net_->params().data().bytes();
  result.fits = result.planned <= memory;
  if (!result.fits) return result;
  try {
    tried_iteration();            // takes the memory, and measures engines
  } catch (const MemoryError&) {  // the plan knows nothing of what engines take
    result.fits = false;
    return result;
  }
  double waited = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < trial.iterations; ++i) waited += tried_iteration().data_wait;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.seconds = seconds / trial.iterations;
  result.images = static_cast<double>(batch * param_->iter_size()) / result.seconds;
  result.data_wait = std::min(1.0, waited / seconds);
  return result;
}

std::vector<BatchResult> Trainer::try_batches(const BatchTrial& trial,
                                              const std::function<void(const BatchResult&)>& each) {
  need_one_process();
  if (trial.most < 1)
    throw Error("the largest batch to try is ", trial.most, "; give at least 1 record");
  if (trial.iterations < 1)
    throw Error("a batch is timed over ", trial.iterations, " iterations; give at least 1");
  settle(0);
  const size_t memory = trial.memory > 0 ? trial.memory : free_memory(context_);
  const std::vector<SampledLayer*> sources = resizable_sources(*net_);
  std::vector<int64_t> sizes;
  for (const SampledLayer* source : sources) sizes.push_back(source->records_per_batch());
  std::vector<BatchResult> results;
  TrialScope scope(*this);
  const auto attempt = [&](int64_t batch) {
    results.push_back(try_batch(batch, trial, memory));
    if (each) each(results.back());
    return results.back().fits;
  };
  const auto set_back = [&] {
    for (size_t i = 0; i < sources.size(); ++i) sources[i]->set_batch_size(sizes[i]);
    scope.set_back();
    plan_next_batches(*net_);
  };
  try {
    int64_t fits = 0, fails = trial.most + 1;
    for (int64_t batch = 1; batch <= trial.most; batch *= 2) {
      if (!attempt(batch)) {
        fails = batch;
        break;
      }
      fits = batch;
    }
    // To an eighth of the size.
    while (fits > 0 && fails - fits > std::max<int64_t>(1, fits / 8)) {
      const int64_t middle = fits + (fails - fits) / 2;
      (attempt(middle) ? fits : fails) = middle;
    }
  } catch (...) {
    set_back();
    throw;
  }
  set_back();
  return results;
}

}  // namespace crema
