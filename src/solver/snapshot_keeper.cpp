#include "solver/snapshot_keeper.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <utility>

#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_files.hpp"

namespace crema {
namespace fs = std::filesystem;

namespace {

/// Whether a word of the name says that less is better. Words are of letters only: "top1_err" has
/// the words "top" and "err", "terrain" is another word.
bool has_word_of_loss(const std::string& name) {
  std::string word;
  for (const char sign : name + " ") {
    if (std::isalpha(static_cast<unsigned char>(sign)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(sign)));
      continue;
    }
    for (const char* of_loss : {"loss", "losses", "err", "error", "errors"}) {
      if (word == of_loss) return true;
    }
    word.clear();
  }
  return false;
}

}  // namespace

bool less_is_better(const std::string& output, float loss_weight) {
  return loss_weight != 0 || has_word_of_loss(output);
}

SnapshotKeeper::SnapshotKeeper(const SolverParameter& param, std::string prefix)
    : prefix_(std::move(prefix)),
      hdf5_(param.snapshot_format() == SolverParameter::HDF5),
      keep_(param.snapshot_keep()),
      best_output_(param.snapshot_best()),
      best_net_(param.snapshot_best_net()),
      best_is_(param.snapshot_best_is()),
      averages_(param.ema_decay() > 0),
      test_iter_(param.test_iter().begin(), param.test_iter().end()) {}

void SnapshotKeeper::check(const std::vector<std::unique_ptr<Net>>& test_nets) {
  if (best_output_.empty()) return;
  const auto count = static_cast<int>(test_nets.size());
  if (best_net_ < 0 || best_net_ >= count)
    throw Error("snapshot_best '", best_output_, "' is of test net ", best_net_,
                ", and the solver has ", count,
                "; add test_iter and test_interval, or correct snapshot_best_net");
  if (test_iter_[static_cast<size_t>(best_net_)] == 0)
    throw Error("snapshot_best '", best_output_, "' is of test net ", best_net_,
                ", whose test_iter is 0; give it the number of batches of a test");
  Net& net = *test_nets[static_cast<size_t>(best_net_)];
  const std::vector<std::string> outputs = net.outputs();
  if (std::ranges::find(outputs, best_output_) == outputs.end())
    throw Error("snapshot_best '", best_output_, "' is no output of test net ", best_net_,
                did_you_mean(best_output_, outputs, "its outputs are"));
  const std::vector<std::string> detections = detection_outputs(net);  // one number of all rows
  if (std::ranges::count(detections, best_output_) == 0 &&
      std::ranges::count(row_outputs(net), best_output_) != 0)
    throw Error("snapshot_best '", best_output_,
                "' has another number of values in each batch; name an output of one value, such "
                "as that of DetectionEvaluate");
  const int64_t values =
      std::ranges::count(detections, best_output_) != 0 ? 1 : net.output(best_output_).count();
  if (values != 1)
    throw Error("snapshot_best '", best_output_, "' has ", values,
                " values; name an output of one value");
  is_least_ = is_least(net.loss_weight(best_output_));
  net.context().log(Severity::info, text("the snapshot with the ", is_least_ ? "least" : "greatest",
                                         " '", best_output_, "' of test net ", best_net_,
                                         " is the best; snapshot_best_is sets which one"));
}

bool SnapshotKeeper::is_least(float loss_weight) const {
  if (best_is_ != SolverParameter::BY_NAME) return best_is_ == SolverParameter::LEAST;
  return less_is_better(best_output_, loss_weight);
}

std::optional<double> SnapshotKeeper::better(const TestReport& report) const {
  if (best_output_.empty() || report.net != best_net_) return {};
  for (const TestReport::Output& output : report.outputs) {
    if (output.name != best_output_) continue;
    if (!std::isfinite(output.value)) return {};
    const bool better =
        !best_value_ || (is_least_ ? output.value < *best_value_ : output.value > *best_value_);
    return better ? std::optional(output.value) : std::nullopt;
  }
  return {};
}

void SnapshotKeeper::written(int iteration, std::optional<double> value, Context& context) {
  std::erase(written_, iteration);
  written_.push_back(iteration);
  if (averages_) averaged_.insert(iteration);
  if (value) {
    best_ = best_iteration_ = iteration;
    best_value_ = value;
  }
  if (keep_ == 0) return;
  const size_t old = written_.size() - std::min(written_.size(), static_cast<size_t>(keep_));
  std::vector<int> stay;
  for (size_t i = 0; i < written_.size(); ++i) {
    // What cannot be removed now is tried again.
    if (i >= old || written_[i] == best_ || !remove(written_[i], context)) {
      stay.push_back(written_[i]);
    } else {
      averaged_.erase(written_[i]);
    }
  }
  written_ = std::move(stay);
}

std::optional<Solver::Best> SnapshotKeeper::best() const {
  if (best_output_.empty() || !best_value_) return {};
  return Solver::Best{best_output_, best_net_, *best_value_, best_iteration_, best_file_};
}

bool SnapshotKeeper::remove(int iteration, Context& context) const {
  const std::string stem = snapshot_stem(prefix_, iteration), format = hdf5_ ? ".h5" : "";
  // The state goes first: there is never one without its weights.
  std::vector<const char*> endings = {".solverstate", ".caffemodel"};
  if (averaged_.count(iteration) != 0) endings.push_back("_ema.caffemodel");
  bool all = true;
  for (const char* ending : endings) {
    const fs::path path = stem + ending + format;
    std::error_code failed;
    // What took the name since, such as a link, is not of this run.
    if (!fs::is_regular_file(fs::symlink_status(path, failed))) continue;
    fs::remove(path, failed);
    if (failed) {
      all = false;
      context.log(Severity::warning,
                  text("cannot remove the old snapshot '", path.string(), "': ", failed.message()));
    }
  }
  return all;
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
  if (value || best_ >= 0) state.set_best_snapshot(value ? iteration : best_);
  if (!value && !best_value_) return;
  state.set_best_value(value ? *value : *best_value_);
  state.set_best_output(best_output_);
  state.set_best_net(best_net_);
  state.set_best_is_least(is_least_);
}

void SnapshotKeeper::save(int iteration, std::optional<double> value, Origin& origin) const {
  if (!value && !best_value_) return;
  origin.set_best_output(best_output_);
  origin.set_best_value(value ? *value : *best_value_);
  const int best_iteration = value ? iteration : best_iteration_;
  if (best_iteration >= 0) origin.set_best_iteration(best_iteration);
}

bool SnapshotKeeper::compares(const SolverState& state) const {
  return (!state.has_best_output() || state.best_output() == best_output_) &&
         (!state.has_best_net() || state.best_net() == best_net_) &&
         (!state.has_best_is_least() || state.best_is_least() == is_least_);
}

bool SnapshotKeeper::load(const SolverState& state, const std::string& path, Context& context) {
  written_.clear();
  averaged_.clear();
  best_ = best_iteration_ = -1;
  best_value_.reset();
  best_file_.clear();
  if (state.has_best_value() && !best_output_.empty()) {
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
  best_ = state.best_snapshot();
  if (best_value_ && fs::exists(best_file(prefix_, hdf5_), failed))
    best_file_ = best_file(prefix_, hdf5_);
  return true;
}

}  // namespace crema
