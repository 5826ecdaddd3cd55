// The snapshots of a training: when they are taken, which of them is the best, and how a run goes
// on from one.
#include <algorithm>
#include <utility>

#include "model/source_map.hpp"
#include "parallel/communicator.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/early_stop.hpp"
#include "solver/rate_policy.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_files.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/trainer.hpp"
#include "solver/update_rule.hpp"
#include "solver/weight_average.hpp"

namespace crema {

void Trainer::snapshot_once(bool needed, std::optional<double> best) {
  const bool has_one = last_snapshot_ == iteration_;
  if (has_one && !best) return;
  // A test of the same iteration meets the same full disk, which one warning is enough for.
  if (best && failed_snapshot_ == iteration_) return;
  std::string path;
  try {
    path = write_files(best);
  } catch (const Error& error) {
    if (needed) throw;
    failed_snapshot_ = iteration_;
    context_.log(Severity::warning, text("the snapshot of iteration ", iteration_,
                                         " failed, training goes on: ", error.what()));
    return;
  }
  if (!has_one && hooks_.on_snapshot) hooks_.on_snapshot(path);
}

TrainingState Trainer::training_state() {
  TrainingState state;
  state.iteration = iteration_;
  state.solver_file = solver_file_;
  state.net_file = param_->has_net() ? param_->net() : param_->train_net();
  state.origin = origin_.get();
  state.type = rule_->name();
  // As in published solvers: of the last iteration that was run.
  state.steps_passed = policy_->steps_passed(std::max(0, iteration_ - 1));
  state.plateau = policy_->plateau();
  if (scaler_ || loss_scale_ != param_->loss_scale()) state.loss_scale = loss_scale_;
  if (scaler_) state.loss_scale_held = scaler_->held();
  state.losses = losses_;
  state.seed = run_.seed;
  state.keeper = keeper_.get();
  state.early_stop = early_stop_.get();
  if (param_->max_hours() > 0) state.seconds = seconds();
  state.rate_factor = rate_factor_;
  state.rollbacks = rollbacks_;
  state.rollback_to = rollback_to_;
  state.halved_batch = halved_batch_;
  state.history = &history_;
  state.average = average_.get();
  state.train = net_.get();
  state.rank = static_cast<int>(run_.rank);
  state.processes = static_cast<int>(run_.world_size);
  for (auto& net : test_nets_) state.tests.push_back(net.get());
  state.cursors = before_test_.get();
  return state;
}

std::string Trainer::snapshot() {
  settle(0);
  std::string path = write_files({});
  if (hooks_.on_snapshot) hooks_.on_snapshot(path);
  return path;
}

std::string Trainer::write_files(std::optional<double> best) {
  // In the middle of a test the net may hold the average.
  const WeightAverage::InNet weights(average_.get(), false);
  bring_together();
  const SnapshotForm form{.hdf5 = param_->snapshot_format() == SolverParameter::HDF5,
                          .with_diffs = param_->snapshot_diff()};
  TrainingState state = training_state();
  state.best = best;
  const RecordCursors cursors = cursors_of_all(state);
  state.cursors = &cursors;
  in_first([&] { write_snapshot(prefix_, state, form); });
  last_snapshot_ = iteration_;
  // First, so that PREFIX_last never leads to what the keeper removes.
  if (!param_->snapshot_best().empty() && is_first()) link_last();
  keeper_->written(iteration_, best, context_);
  return text(snapshot_stem(prefix_, iteration_), ".solverstate", form.hdf5 ? ".h5" : "");
}

void Trainer::keep_best(const std::vector<TestReport>& reports) {
  for (const TestReport& report : reports) {
    const std::optional<double> value = keeper_->better(report);
    if (!value) continue;
    const bool is_best = keeper_->is_best(*value);
    // A snapshot of this iteration that was taken before the test does not know of it.
    snapshot_once(false, value);
    if (last_snapshot_ != iteration_) continue;
    // The weights are there, even where the state could not be written anew.
    keeper_->written(iteration_, value, context_);
    if (!is_best) {
      context_.log(Severity::info, text("the snapshot of iteration ", iteration_, " is one of the ",
                                        param_->snapshot_best_count(), " best so far: '",
                                        param_->snapshot_best(), "' is ", *value));
      continue;
    }
    write_best(*value);
    context_.log(Severity::info,
                 text("the snapshot of iteration ", iteration_, " is the best so far: '",
                      param_->snapshot_best(), "' is ", *value));
  }
}

void Trainer::set_run_folder(const std::string& folder) { origin_->set_run(folder); }

std::string Trainer::run_folder() const { return origin_->run(); }

std::optional<Solver::Best> Trainer::best() const { return keeper_->best(); }

void Trainer::write_best(double value) {
  const bool hdf5 = param_->snapshot_format() == SolverParameter::HDF5;
  const std::string path = best_file(prefix_, hdf5);
  TrainingState state = training_state();
  state.best = value;
  try {
    in_first([&] { write_present_weights(path, state); });
    keeper_->set_best_file(path);
  } catch (const Error& error) {
    const bool tests_average = average_ && param_->ema_test();
    keeper_->set_best_file(text(snapshot_stem(prefix_, iteration_), tests_average ? "_ema" : "",
                                ".caffemodel", hdf5 ? ".h5" : ""));
    context_.log(Severity::warning, text("the best weights have no file of their own, training "
                                         "goes on: ",
                                         error.what()));
  }
}

void Trainer::link_last() {
  try {
    link_last_snapshot(prefix_, iteration_, param_->snapshot_format() == SolverParameter::HDF5,
                       average_ != nullptr);
  } catch (const Error& error) {
    context_.log(Severity::warning,
                 text("no file leads to the last snapshot, training goes on: ", error.what()));
  }
}

void Trainer::remember_test(const std::vector<TestReport>& reports) {
  if (reports.empty()) return;
  origin_->set_tested_at(iteration_);
  origin_->clear_tested();
  for (const TestReport& report : reports) {
    for (const TestReport::Output& output : report.outputs) {
      const auto same = [&](const TestReport::Output& one) { return one.name == output.name; };
      if (std::ranges::count_if(report.outputs, same) != 1) continue;  // a list of values
      Origin::Tested& tested = *origin_->add_tested();
      tested.set_output(output.name);
      tested.set_net(report.net);
      tested.set_value(output.value);
    }
  }
}

void Trainer::compare_settings(const Origin& saved) const {
  const auto compare = [&](const auto& were, const auto& are, const char* what) {
    if (std::ranges::equal(were, are)) return;
    // What both have says nothing.
    const auto without = [](const auto& all, const auto& others) {
      std::vector<std::string> own;
      for (const std::string& one : all) {
        if (std::ranges::find(others, one) == others.end()) own.push_back(one);
      }
      return joined(own);
    };
    const std::string before = without(were, are), now = without(are, were);
    context_.log(Severity::info,
                 text("the run of the snapshot had other ", what,
                      before.empty() && now.empty() ? ": they are in another order now" : "",
                      before.empty() ? "" : text(": ", before),
                      now.empty() ? "" : text("; this one has ", now)));
  };
  if (!saved.has_iteration()) return;  // it does not say
  compare(saved.setting(), origin_->setting(), "settings from its caller");
  compare(saved.frozen(), origin_->frozen(), "frozen layers");
}

std::string Trainer::resume() {
  settle(0);
  SavedSnapshot found;
  if (is_first()) found = newest_whole_snapshot(prefix_, average_ != nullptr, context_);
  std::string path = found.path;
  if (processes_) processes_->broadcast(path, 0);
  if (path.empty()) return path;
  is_first() ? restore_from(found) : restore(path);
  return path;
}

void Trainer::restore(const std::string& solverstate) {
  settle(0);
  SavedSnapshot saved;
  saved.path = solverstate;
  read_state(solverstate, saved.state);
  try {
    check_state(saved.state, training_state());
    read_weights_of_state(saved, average_ != nullptr);
  } catch (Error& error) {
    error.at({solverstate, 0, 0});
    throw;
  }
  restore_from(saved);
}

void Trainer::take_seed(uint64_t saved) {
  if (!asked_seed_) {
    run_.seed = saved;
  } else if (*asked_seed_ != saved) {
    context_.log(Severity::warning,
                 text("the seed ", *asked_seed_, " replaces that of the snapshot, ", saved,
                      ": the run goes on with other random numbers than without a break"));
  }
}

void Trainer::restore_from(SavedSnapshot& snapshot, bool back) {
  const SolverState& saved = snapshot.state;
  try {
    check_state(saved, training_state());
    if (!back) take_rescues(saved);
    TrainingState state = training_state();
    if (average_) average_->restore(snapshot.average_path, snapshot.average);
    load_read_weights(*net_, snapshot.weights_path, snapshot.weights);
    context_.log(Severity::info, text("Weights from ", snapshot.weights_path));
    if (saved.has_seed() && !back) take_seed(saved.seed());
    if (saved.tuning_size() != 0 && !back) {
      // The nets were planned with other choices: plan again with those of the state.
      restore_tuning(saved, context_);
      net_->replan();
      for (auto& net : test_nets_) net->replan();
    }
    restore_state(saved, state);
    if (scaler_) {
      scaler_.emplace(state.loss_scale.value_or(LossScaler::kFirst), state.loss_scale_held);
    }
    set_loss_scale(scaler_ ? scaler_->scale() : state.loss_scale.value_or(param_->loss_scale()));
    const bool is_own = keeper_->load(saved, snapshot.path, context_);
    early_stop_->load(saved, context_);
    iteration_ = state.iteration;
    if (!back) compare_settings(saved.origin());
    *origin_->mutable_tested() = saved.origin().tested();
    origin_->set_run(saved.origin().run());
    origin_->clear_tested_at();
    if (saved.origin().has_tested_at()) origin_->set_tested_at(saved.origin().tested_at());
    // The files of another prefix are no snapshot of this run.
    last_snapshot_ = is_own ? iteration_ : -1;
    losses_ = state.losses;
    if (losses_.size() > static_cast<size_t>(param_->average_loss()))
      losses_.erase(losses_.begin(), losses_.end() - param_->average_loss());
    policy_->set_plateau(state.plateau);
    compare_processes(saved);
    share_state();
  } catch (Error& error) {
    error.at({snapshot.path, 0, 0});
    throw;
  }
}

}  // namespace crema
