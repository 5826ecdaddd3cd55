// What a training does by itself where it fails: it goes back to a snapshot with a lower rate
// (on_nan), or goes on with half the batch (on_oom). It says so, and snapshots hold it.
#include <algorithm>
#include <functional>

#include "core/data_source.hpp"
#include "core/finite.hpp"
#include "core/memory_error.hpp"
#include "crema/parameter_arena.hpp"
#include "model/blob_message.hpp"
#include "net/not_finite.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/batch_halving.hpp"
#include "solver/rate_policy.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/trainer.hpp"

namespace crema {
namespace {

bool is_finite(const BlobProto& blob) {
  Tensor values(Shape{blob_count(blob)}, blob.double_data_size() > 0 ? DType::f64 : DType::f32);
  load_values(blob, values);
  return first_not_finite(values) < 0;
}

/// Whether a run can go on from the values of the snapshot.
bool is_finite(const SavedSnapshot& snapshot) {
  for (const LayerParameter& layer : snapshot.weights.layer()) {
    if (!std::ranges::all_of(layer.blobs(), [](const BlobProto& blob) { return is_finite(blob); }))
      return false;
  }
  return std::ranges::all_of(snapshot.state.history(),
                             [](const BlobProto& blob) { return is_finite(blob); });
}

}  // namespace

void Trainer::note(Severity severity, const std::string& said) {
  context_.log(severity, said);
  notes_.push_back(said);
  tell_notes();
}

void Trainer::tell_notes() {
  if (!hooks_.on_note) return;
  for (const std::string& said : std::exchange(notes_, {})) hooks_.on_note(said);
}

void Trainer::go_back(const NotFiniteError& error) {
  if (param_->on_nan() != SolverParameter::ROLLBACK) {
    const std::vector<int> there = keeper_->on_disk();
    if (there.empty()) throw;
    throw NotFiniteError(error.what(), "; the snapshot of iteration ",
                         *std::ranges::max_element(there), " is untouched");
  }
  const std::string what = error.what();
  if (rollbacks_ >= param_->rollback_most())
    throw Error(what, "; the run went back to a snapshot ", rollbacks_,
                rollbacks_ == 1 ? " time" : " times", " before, as often as rollback_most says");
  SavedSnapshot found = snapshot_behind_failure(what);
  // Behind the batch that failed: if a record is at fault, it does not come again at once.
  const std::vector<RecordCursor> places = positions();
  const int failed = iteration_;
  std::vector<int> undone = keeper_->on_disk();
  restore_from(found, true);
  for (size_t i = 0; i < sources_.size(); ++i) sources_[i]->set_cursor(places[i]);
  positions_.clear();
  rate_factor_ *= param_->rollback_factor();
  ++rollbacks_;
  rollback_to_ = iteration_;
  note(Severity::warning,
       text("iteration ", failed, " failed, so the run goes back to the snapshot of iteration ",
            iteration_, " and on with ", rate_factor_, " of the rate, lr = ", rate(),
            " (on_nan: ", rollbacks_, " of ", param_->rollback_most(),
            " times); its data go on behind the batch that failed. The failure: ", what));
  std::erase_if(undone, [&](int of) { return of <= iteration_; });
  save_rollback(undone);
}

void Trainer::save_rollback(const std::vector<int>& undone) {
  std::string path;
  try {
    path = write_files({});
  } catch (const Error& error) {
    context_.log(Severity::warning, text("the snapshot of iteration ", iteration_,
                                         " does not say that the run went back to it, training "
                                         "goes on: ",
                                         error.what()));
    return;
  }
  keeper_->undo(undone, context_);
  if (hooks_.on_snapshot) hooks_.on_snapshot(path);
}

SavedSnapshot Trainer::snapshot_behind_failure(const std::string& why) {
  std::vector<int> on_disk = keeper_->on_disk();
  std::erase_if(on_disk, [&](int of) { return of > iteration_; });
  std::ranges::sort(on_disk, std::greater());
  // What failed twice behind it may be in the snapshot itself.
  const bool has_others = std::ranges::any_of(on_disk, [&](int of) { return of < rollback_to_; });
  if (has_others && !on_disk.empty() && on_disk.front() == rollback_to_)
    on_disk.erase(on_disk.begin());
  const std::string format = param_->snapshot_format() == SolverParameter::HDF5 ? ".h5" : "";
  for (const int of : on_disk) {
    const std::string path = snapshot_stem(prefix_, of) + ".solverstate" + format;
    SavedSnapshot found;
    std::string damage = why_damaged(path, average_ != nullptr, &found);
    if (damage.empty() && !is_finite(found)) damage = "it has values that are not finite";
    if (damage.empty()) return found;
    context_.log(Severity::warning, text("the snapshot '", path, "' is passed over: ", damage));
  }
  throw Error(why, "; on_nan: ROLLBACK finds no snapshot of this run to go back to");
}

void Trainer::with_halved(const std::function<void()>& body) {
  try {
    body();
  } catch (const MemoryError& error) {
    throw MemoryError(error.what(), "; that is of batches that are halved already, as on_oom says");
  }
}

void Trainer::try_iteration() {
  const RecordCursors cursors = data_cursors(training_state());
  const std::vector<double> losses = losses_;
  const RatePolicy::Plateau plateau = policy_->plateau();
  std::vector<std::pair<Tensor*, Tensor>> statistics;
  for (const auto& segment : net_->params().segments()) {
    Tensor& values = segment.parameter->data;
    if (segment.parameter->learnable) continue;
    Tensor copy(values.shape(), values.dtype());
    copy.copy_from(values);
    statistics.emplace_back(&values, std::move(copy));
  }
  try {
    advance();
    settle(0);
  } catch (const MemoryError& error) {
    set_data_cursors(training_state(), cursors);
    for (auto& [values, before] : statistics) values->copy_from(before);
    losses_ = losses;
    policy_->set_plateau(plateau);
    halve_batch(error);
    with_halved([&] {
      advance();
      settle(0);
    });
  }
  tries_memory_ = false;
}

void Trainer::halve_batch(const MemoryError& error) {
  std::string halved;
  try {
    if (halved_batch_) throw Error("it is half of what the settings say already");
    halved = halve_batches(*net_);
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& reason) {
    throw_not_halved(error, reason);
  }
  note_halved(error, halved);
}

void Trainer::note_halved(const MemoryError& error, const std::string& halved) {
  const int passes = param_->iter_size();
  param_->set_iter_size(2 * passes);
  halved_batch_ = true;
  note(Severity::warning, text("the memory does not suffice, so batches are halved (", halved,
                               ") and iter_size goes from ", passes, " to ", 2 * passes,
                               ", as on_oom says: an iteration takes as many records as before",
                               effect_of_halving(*net_), ". The failure: ", error.what()));
}

void Trainer::throw_not_halved(const MemoryError& error, const Error& reason) {
  throw MemoryError(error.what(), "; on_oom: HALVE_BATCH cannot help: ", reason.what());
}

void Trainer::take_rescues(const SolverState& saved) {
  if (saved.has_seconds()) seconds_ = saved.seconds();
  if (started_) started_ = std::chrono::steady_clock::now();
  rate_factor_ = saved.has_rate_factor() ? saved.rate_factor() : 1;
  rollbacks_ = saved.rollbacks();
  rollback_to_ = saved.rollback_to();
  if (rate_factor_ != 1)
    context_.log(Severity::info, text("the run of the snapshot went back ", rollbacks_,
                                      rollbacks_ == 1 ? " time" : " times",
                                      " (on_nan): all rates are times ", rate_factor_));
  if (!saved.halved_batch() || halved_batch_) return;
  if (param_->on_oom() != SolverParameter::HALVE_BATCH) {
    context_.log(Severity::info,
                 "the run of the snapshot had halved its batches (on_oom); this one, without "
                 "on_oom: HALVE_BATCH, has those of the settings");
    return;
  }
  const std::string halved = halve_batches(*net_);
  param_->set_iter_size(2 * param_->iter_size());
  halved_batch_ = true;
  context_.log(Severity::info, text("as in the run of the snapshot, batches are halved (", halved,
                                    ") and iter_size is ", param_->iter_size()));
}

}  // namespace crema
