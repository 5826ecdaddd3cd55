// Which snapshots of a run stay on disk: the last ones, and the best by an output of a test net.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crema/solver.hpp"
#include "solver/test_output.hpp"

namespace crema {

class Origin;
class SolverState;

/// Removes only files that this run wrote, or the runs that it continues: their iterations are in
/// the state. A snapshot is removed after a newer one is complete.
class SnapshotKeeper {
 public:
  SnapshotKeeper(const SolverParameter& param, std::string prefix);

  /// Error unless snapshot_best names an output of one value of a test net. Logs which value is the
  /// best.
  void check(const std::vector<std::unique_ptr<Net>>& test_nets);
  /// The value by which snapshots are compared, if the report is better than all before it, or with
  /// snapshot_best_count than one of the best.
  std::optional<double> better(const TestReport& report) const;
  /// Whether the value is better than all before it.
  bool is_best(double value) const;
  /// Says that the weights of the test of `iteration`, the best so far, are in `file`; "": they are
  /// in none.
  void set_best_file(std::string file) { best_file_ = std::move(file); }
  /// The best so far; none without snapshot_best.
  std::optional<Solver::Best> best() const;
  const std::string& best_output() const { return output_.name; }
  /// The iterations of the snapshots on disk that the run wrote, in the order of writing.
  const std::vector<int>& on_disk() const { return written_; }

  /// After the snapshot of `iteration` was written; `value` if it is the best so far. Removes those
  /// that are too many; a file that cannot be removed is a warning, and is tried again after the
  /// next snapshot.
  void written(int iteration, std::optional<double> value, Context& context);
  /// Another process writes the files, and removes them.
  void leave_files() { removes_ = false; }

  /// The run has gone back before the snapshots of these iterations: removes their states, so that
  /// no run continues from them. Their weights stay, until the run writes them anew.
  void undo(const std::vector<int>& iterations, Context& context) const;

  /// What the state of the snapshot of `iteration`, which is about to be written, says of these;
  /// `value` as for written().
  void save(int iteration, std::optional<double> value, SolverState& state) const;
  /// The same of the best so far for its weights.
  void save(int iteration, std::optional<double> value, Origin& origin) const;
  /// Continues the run whose state is at `path`. If that is a snapshot with the prefix and the
  /// format of this run, this run counts, and may remove, the snapshots that the state names. If
  /// it has another prefix or is a copy, the snapshots are left alone, and only the best value is
  /// taken from the state. A value of another output is not taken, which is logged. Returns
  /// whether it is such a snapshot.
  bool load(const SolverState& state, const std::string& path, Context& context);

 private:
  /// Whether the best value of the state is of the output that this run compares.
  bool compares(const SolverState& state) const;
  /// Returns false if a file cannot be removed.
  bool remove(int iteration, Context& context) const;
  static bool remove_file(const std::string& path, Context& context);

  std::string prefix_;
  bool hdf5_;
  int keep_;
  TestOutput output_;  // snapshot_best
  size_t best_count_;
  bool removes_ = true;
  bool averages_;               // each snapshot has an average of the weights
  std::vector<int> test_iter_;  // batches of each test net
  std::vector<int> written_;    // iterations of the snapshots on disk, in the order of writing
  std::set<int> averaged_;      // those of them with an average
  /// The best tests that have a snapshot of this run, the best one first.
  struct Test {
    int iteration;
    double value;
  };
  std::vector<Test> best_;
  std::optional<double> best_value_;
  int best_iteration_ = -1;  // of best_value_, with a snapshot of this run or not
  std::string best_file_;

  /// `best_` with this test.
  std::vector<Test> with(int iteration, std::optional<double> value) const;
};

}  // namespace crema
