// The state of a training run on disk.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "data/data_source.hpp"

namespace crema {

class SolverState;

struct RecordCursors {
  /// By layer: "data" in the training net, "test0/data" in the first test net.
  std::map<std::string, RecordCursor> of;
  /// What layers carry from batch to batch (core/carried_state.hpp), named likewise.
  std::map<std::string, std::vector<Tensor>> states;
};

/// What a .solverstate holds beside the weights' file name.
struct TrainingState {
  int iteration = 0;
  int steps_passed = 0;  // how often the policy has lowered the rate; to save, for published tools
  uint64_t seed = 0;     // to save
  std::vector<Tensor>* history = nullptr;  // each of the arena's size
  Net* train = nullptr;
  std::vector<Net*> tests;
  /// What to save; null: the present positions of the data sources and states of the layers.
  const RecordCursors* cursors = nullptr;
};

/// The positions of the data sources of the run's nets, and what their layers carry.
RecordCursors data_cursors(const TrainingState& run);
/// Sets data sources and layers to these. Those that are not named keep theirs.
void set_data_cursors(const TrainingState& run, const RecordCursors& cursors);

/// Writes PREFIX_iter_N.caffemodel, then PREFIX_iter_N.solverstate, and returns the latter's path.
/// Each of the two files is complete if it exists. The state exists only with its weights.
std::string write_snapshot(const std::string& prefix, const TrainingState& run, bool with_diffs);

/// Removes what runs of this prefix on this machine left that were killed while they wrote a
/// snapshot.
void remove_unfinished(const std::string& prefix);

/// Reads a .solverstate; a .caffemodel in its place is an Error that says what to do.
void read_state(const std::string& path, SolverState& state);
/// Makes the tuner choose what the run of `state` chose, in nets that are planned from then on.
void restore_tuning(const SolverState& state, Context& context);
/// Where the state's weights are: beside it, or else as it names them, from the working directory.
std::string weights_of(const SolverState& state, const std::string& path);
/// Error if the history does not fit the run.
void check_state(const SolverState& state, const TrainingState& run);
/// Restores the iteration, the history, which check_state() accepted, the positions of the data
/// sources, and what layers carry. Error if a source has no record at its position.
void restore_state(const SolverState& state, TrainingState& run);

}  // namespace crema
