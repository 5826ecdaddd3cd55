// Runs the trials of a sweep, each in a folder of its own that is the folder of a run, and compares
// them.
//
//   <folder>/sweep.prototxt          the sweep
//   <folder>/trial-01/               a run (monitor/run_folder.hpp), with its log.txt
//   <folder>/trial-01/weights/       its snapshots
//   <folder>/report.html             the trials beside each other, behind those that end
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "crema/context.hpp"
#include "crema/solver.hpp"
#include "monitor/sweep/sweep_plan.hpp"

namespace crema {

struct TrialState {
  enum class Kind : uint8_t { waiting, running, finished, early, stopped, failed };

  Kind kind = Kind::waiting;
  bool was_done = false;  // in an earlier part of the sweep
  int iterations = 0;
  std::string output;  // by which it is ranked; "": no test yet
  bool least_is_best = false;
  std::optional<double> best;
  int best_iteration = 0;
  double seconds = 0;  // of training
  int last_test = -1;  // iteration
  /// Whether that test has a loss or an output that is not finite.
  bool has_bad_tests = false;
  std::string text;  // of an error, or why it ended
};

/// "finished", "failed: ...", ...
std::string words_of(const TrialState& state);

struct SweepRunOptions {
  /// Of each trial; threads are those of all trials together, 0: as ContextOptions has it.
  ContextOptions context = {};
  /// Trials of the folder that failed are run again.
  bool retries_failed = false;
  /// Asked often, by any thread: true ends all trials behind a snapshot.
  std::function<bool()> stops = {};
  /// A trial begins, or has ended. One call at a time.
  std::function<void(const PlannedTrial&, const TrialState&)> on_change = {};
  /// What training logs at warnings and above, with the trial's name; the rest is in its log.txt.
  std::function<void(const PlannedTrial&, Severity, const std::string&)> on_log = {};
};

class SweepRun {
 public:
  /// Takes the folder, which is made if it is missing. Trials that are there and have ended are not
  /// run again; others go on from their snapshots, or begin anew. Error for the folder of another
  /// sweep, one that differs in more than parallel and the number of trials, and for parallel
  /// trials on a GPU.
  SweepRun(SweepPlan plan, std::string folder, SweepRunOptions options);

  /// Runs all trials. A failure of one does not stop the others. Returns false if `stops` ended it.
  bool run();

  const SweepPlan& plan() const { return plan_; }
  const std::string& folder() const { return folder_; }
  const std::vector<TrialState>& states() const { return states_; }
  /// The numbers of trials, the best first, then those without a result.
  std::vector<size_t> ranked() const;

 private:
  std::string folder_of(size_t trial) const;
  void read_state(size_t trial);
  void run_trial(size_t trial);
  void train(size_t trial);
  void record_failure(size_t trial, const std::string& why) const;
  void take_test(size_t trial, const TestReport& report);
  bool is_hopeless(size_t trial, std::string& why) const;
  /// Writes report.html; nothing where no trial has a folder yet.
  void write_comparison(bool last);
  void change(size_t trial, const TrialState& state);

  /// A best value so far, and the iteration that it was reached at.
  struct Best {
    int iteration;
    double value;
  };

  SweepPlan plan_;
  std::string folder_;
  SweepRunOptions options_;
  std::vector<TrialState> states_;
  std::vector<std::vector<Best>> bests_;  // of each trial, a test each
  std::mutex mutex_;                      // of the states and the bests
  std::mutex report_mutex_;
  std::chrono::steady_clock::time_point next_comparison_;  // not before
};

}  // namespace crema
