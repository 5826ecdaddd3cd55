#include "solver/snapshot_keeper.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "proto/solver.pb.h"
#include "solver/snapshot.hpp"
#include "solver/snapshot_files.hpp"

namespace crema {
namespace fs = std::filesystem;

SnapshotKeeper::SnapshotKeeper(const SolverParameter& param, std::string prefix)
    : prefix_(std::move(prefix)),
      hdf5_(param.snapshot_format() == SolverParameter::HDF5),
      keep_(param.snapshot_keep()),
      output_{"snapshot_best",           "snapshot_best_net",      param.snapshot_best(),
              param.snapshot_best_net(), param.snapshot_best_is(), false},
      best_count_(static_cast<size_t>(param.snapshot_best_count())),
      averages_(param.ema_decay() > 0),
      test_iter_(param.test_iter().begin(), param.test_iter().end()) {}

void SnapshotKeeper::check(const std::vector<std::unique_ptr<Net>>& test_nets) {
  if (output_.name.empty()) return;
  output_.check(test_nets, test_iter_);
  test_nets.front()->context().log(
      Severity::info,
      text("the snapshot with the ", output_.is_least ? "least" : "greatest", " '", output_.name,
           "' of test net ", output_.net, " is the best; snapshot_best_is sets which one"));
}

bool SnapshotKeeper::is_best(double value) const {
  return !best_value_ || output_.is_better(value, *best_value_);
}

std::optional<double> SnapshotKeeper::better(const TestReport& report) const {
  const std::optional<double> value = output_.value_in(report);
  if (!value || !std::isfinite(*value)) return {};
  if (is_best(*value)) return value;
  if (best_count_ == 1) return {};
  const auto is_of_report = [&](const Test& test) { return test.iteration == report.iteration; };
  if (std::ranges::any_of(best_, is_of_report)) return {};  // a resumed run repeats the test
  const bool enters =
      best_.size() < best_count_ || output_.is_better(*value, best_[best_count_ - 1].value);
  return enters ? value : std::nullopt;
}

std::vector<SnapshotKeeper::Test> SnapshotKeeper::with(int iteration,
                                                       std::optional<double> value) const {
  std::vector<Test> best = best_;
  if (value && !best_value_) best.clear();  // of a run that compared another output
  const auto is_of_it = [&](const Test& test) { return test.iteration == iteration; };
  if (value) {
    std::erase_if(best, is_of_it);
    const auto is_worse = [&](const Test& test) { return output_.is_better(*value, test.value); };
    best.insert(std::ranges::find_if(best, is_worse), {iteration, *value});
  }
  if (best.size() > best_count_) best.resize(best_count_);
  return best;
}

void SnapshotKeeper::written(int iteration, std::optional<double> value, Context& context) {
  std::erase(written_, iteration);
  written_.push_back(iteration);
  if (averages_) averaged_.insert(iteration);
  best_ = with(iteration, value);
  if (value && is_best(*value)) {
    best_iteration_ = iteration;
    best_value_ = value;
  }
  if (keep_ == 0) return;
  const size_t old = written_.size() - std::min(written_.size(), static_cast<size_t>(keep_));
  std::vector<int> stay;
  const auto is_best_one = [&](int of) {
    return std::ranges::any_of(best_, [&](const Test& test) { return test.iteration == of; });
  };
  for (size_t i = 0; i < written_.size(); ++i) {
    // What cannot be removed now is tried again.
    if (i >= old || is_best_one(written_[i]) || !remove(written_[i], context)) {
      stay.push_back(written_[i]);
    } else {
      averaged_.erase(written_[i]);
    }
  }
  written_ = std::move(stay);
}

std::optional<Solver::Best> SnapshotKeeper::best() const {
  if (output_.name.empty() || !best_value_) return {};
  return Solver::Best{output_.name, output_.net, *best_value_, best_iteration_, best_file_};
}

bool SnapshotKeeper::remove(int iteration, Context& context) const {
  if (!removes_) return true;
  const std::string stem = snapshot_stem(prefix_, iteration), format = hdf5_ ? ".h5" : "";
  // The state goes first: there is never one without its weights.
  std::vector<const char*> endings = {".solverstate", ".caffemodel"};
  if (averaged_.count(iteration) != 0) endings.push_back("_ema.caffemodel");
  bool all = true;
  for (const char* ending : endings) all = remove_file(stem + ending + format, context) && all;
  return all;
}

bool SnapshotKeeper::remove_file(const std::string& path, Context& context) {
  std::error_code failed;
  // What took the name since, such as a link, is not of this run.
  if (!fs::is_regular_file(fs::symlink_status(path, failed))) return true;
  fs::remove(path, failed);
  if (failed)
    context.log(Severity::warning,
                text("cannot remove the old snapshot '", path, "': ", failed.message()));
  return !failed;
}

void SnapshotKeeper::undo(const std::vector<int>& iterations, Context& context) const {
  for (const int of : iterations)
    remove_file(text(snapshot_stem(prefix_, of), ".solverstate", hdf5_ ? ".h5" : ""), context);
}

void SnapshotKeeper::save(int iteration, std::optional<double> value, SolverState& state) const {
  for (const int kept : written_) {
    if (kept != iteration) state.add_kept_snapshot(kept);
  }
  state.add_kept_snapshot(iteration);
  for (const int averaged : averaged_) {
    if (averaged != iteration) state.add_kept_average(averaged);
  }
  if (averages_) state.add_kept_average(iteration);
  const std::vector<Test> best = with(iteration, value);
  if (!best.empty()) state.set_best_snapshot(best.front().iteration);
  if (best_count_ > 1) {
    for (const Test& test : best) {
      SolverState::Test& saved = *state.add_best();
      saved.set_iteration(test.iteration);
      saved.set_value(test.value);
    }
  }
  if (!value && !best_value_) return;
  state.set_best_value(value && is_best(*value) ? *value : *best_value_);
  state.set_best_output(output_.name);
  state.set_best_net(output_.net);
  state.set_best_is_least(output_.is_least);
}

void SnapshotKeeper::save(int iteration, std::optional<double> value, Origin& origin) const {
  if (!value && !best_value_) return;
  const bool is_new = value && is_best(*value);
  origin.set_best_output(output_.name);
  origin.set_best_value(is_new ? *value : *best_value_);
  const int best_iteration = is_new ? iteration : best_iteration_;
  if (best_iteration >= 0) origin.set_best_iteration(best_iteration);
}

bool SnapshotKeeper::compares(const SolverState& state) const {
  return (!state.has_best_output() || state.best_output() == output_.name) &&
         (!state.has_best_net() || state.best_net() == output_.net) &&
         (!state.has_best_is_least() || state.best_is_least() == output_.is_least);
}

bool SnapshotKeeper::load(const SolverState& state, const std::string& path, Context& context) {
  written_.clear();
  averaged_.clear();
  best_.clear();
  best_iteration_ = -1;
  best_value_.reset();
  best_file_.clear();
  if (state.has_best_value() && !output_.name.empty()) {
    if (compares(state)) {
      best_value_ = state.best_value();
      best_iteration_ = state.origin().has_best_iteration() ? state.origin().best_iteration()
                                                            : state.best_snapshot();
    } else {
      context.log(Severity::info,
                  text("the best snapshot of the state is that with the ",
                       state.best_is_least() ? "least" : "greatest", " '", state.best_output(),
                       "' of test net ", state.best_net(),
                       "; this run compares another value, and begins anew with it"));
    }
  }
  std::error_code failed;
  const std::string own =
      text(snapshot_stem(prefix_, state.iter()), ".solverstate", hdf5_ ? ".h5" : "");
  if (!fs::equivalent(path, own, failed)) return false;
  written_.assign(state.kept_snapshot().begin(), state.kept_snapshot().end());
  averaged_.insert(state.kept_average().begin(), state.kept_average().end());
  if (best_value_ && state.best_size() > 0) {
    for (const SolverState::Test& test : state.best())
      best_.push_back({test.iteration(), test.value()});
    if (best_.size() > best_count_) best_.resize(best_count_);
  } else if (state.best_snapshot() >= 0) {
    best_.push_back({state.best_snapshot(), state.best_value()});
  }
  if (best_value_ && fs::exists(best_file(prefix_, hdf5_), failed))
    best_file_ = best_file(prefix_, hdf5_);
  return true;
}

}  // namespace crema
