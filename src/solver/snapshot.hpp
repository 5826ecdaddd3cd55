// The state of a training run on disk.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data_source.hpp"
#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/rate_policy.hpp"

namespace crema {

class EarlyStop;
class SnapshotKeeper;
class WeightAverage;

struct RecordCursors {
  /// By layer: "data" in the training net, "test0/data" in the first test net.
  std::map<std::string, RecordCursor> of;
  /// What layers carry from batch to batch (core/carried_state.hpp), named likewise.
  std::map<std::string, std::vector<Tensor>> states;
  /// The number of records of the sources, as of `of`; 0: unknown.
  std::map<std::string, int64_t> records;
};

/// What a .solverstate holds beside the weights' file name.
struct TrainingState {
  int iteration = 0;
  std::string solver_file, net_file;  // as given, to save; "": a message
  const Origin* origin = nullptr;     // what else to save of where it comes from; null: nothing
  int steps_passed = 0;  // how often the policy has lowered the rate; to save, for published tools
  uint64_t seed = 0;     // to save
  std::string type;      // of the solver; a state of another type is refused
  RatePolicy::Plateau plateau;
  std::optional<double> loss_scale;        // none: that of the settings
  int loss_scale_held = 0;                 // updates since it changed, where it follows gradients
  std::vector<double> losses;              // of the last average_loss iterations
  WeightAverage* average = nullptr;        // to save; null: none
  std::vector<Tensor>* history = nullptr;  // each of the arena's size
  Net* train = nullptr;
  std::vector<Net*> tests;
  /// What to save; null: the present positions of the data sources and states of the layers.
  const RecordCursors* cursors = nullptr;
  int rank = 0, processes = 1;             // of those that train together
  const SnapshotKeeper* keeper = nullptr;  // what to save of other snapshots; null: nothing
  const EarlyStop* early_stop = nullptr;   // to save; null: nothing
  std::optional<double> seconds;           // of max_hours, to save
  double rate_factor = 1;                  // likewise, of on_nan, with the next two
  int rollbacks = 0, rollback_to = -1;
  bool halved_batch = false;   // likewise, of on_oom
  std::optional<double> best;  // to save: this one is the best so far, by this value
};

/// The positions of the data sources of the run's nets, and what their layers carry.
RecordCursors data_cursors(const TrainingState& run);
/// What layers carry, as a state has it, by the layer's name there.
std::map<std::string, std::vector<Tensor>> layer_states(const SolverState& state);
void save_layer_states(const std::map<std::string, std::vector<Tensor>>& states,
                       SolverState& state);
/// Sets data sources and layers to these. Those that are not named keep theirs.
void set_data_cursors(const TrainingState& run, const RecordCursors& cursors);

/// The files of a snapshot, each read once.
struct SavedSnapshot {
  std::string path;  // of the state; "": there is none
  SolverState state;
  std::string weights_path, average_path;
  NetParameter weights, average;
};

struct SnapshotForm {
  bool hdf5 = false;
  bool with_diffs = false;  // the weights' file has the gradients too
};

/// PREFIX_iter_N, with which all files of a snapshot begin.
std::string snapshot_stem(const std::string& prefix, int iteration);

/// What the weights of a snapshot take, without the text of the net: as Net::save() has them, a
/// parameter that layers share once for each of them.
size_t saved_bytes(const Net& net, bool with_diffs);

/// Writes PREFIX_iter_N.caffemodel, with an average PREFIX_iter_N_ema.caffemodel, then
/// PREFIX_iter_N.solverstate, and returns the latter's path; all names end in .h5 for HDF5. Each of
/// these files is complete if it exists. The state exists only with its weights.
std::string write_snapshot(const std::string& prefix, const TrainingState& run,
                           const SnapshotForm& form);
/// Writes the weights that the net holds at present, the best so far, to the file at `path`.
void write_present_weights(const std::string& path, const TrainingState& run);

/// The states with this prefix, of both formats, the newest (by iteration) first. Error if the
/// folder cannot be read. `written_last`, if not null, gets the one that was written last.
std::vector<std::string> snapshots_of(const std::string& prefix,
                                      std::string* written_last = nullptr);
/// Why the state at `path`, or its weights, are damaged, lack, or do not belong together; "" if
/// they can be taken. `average`: the average of the weights too. Error if the system refuses to
/// read a file, MemoryError if the memory does not suffice for one: that is no damage.
/// `out`, if not null, gets what was read.
std::string why_damaged(const std::string& path, bool average, SavedSnapshot* out = nullptr);
/// The first of snapshots_of() that is not damaged, after a warning for each one before it; without
/// a path if there is no snapshot. Error if all are damaged, and as why_damaged().
SavedSnapshot newest_whole_snapshot(const std::string& prefix, bool average, Context& context);

/// Reads a .solverstate; a .caffemodel in its place is an Error that says what to do.
void read_state(const std::string& path, SolverState& state);
/// Makes the tuner choose what the run of `state` chose, in nets that are planned from then on.
void restore_tuning(const SolverState& state, Context& context);
/// Where the state's weights are: beside it, or else as it names them, from the working directory.
std::string weights_of(const SolverState& state, const std::string& path);
/// Likewise the weights' average; empty if the state has none.
std::string average_of(const SolverState& state, const std::string& path);
/// Reads the weights of the state at `out.path`, which is read, and with `average` their average if
/// it has one. Error if they are not those that were written with the state, as after a kill
/// between the two files; states of other programs cannot tell.
void read_weights_of_state(SavedSnapshot& out, bool average);
/// Error if the solver's type is another one, the history does not fit the run, or a number is
/// none that a run can have.
void check_state(const SolverState& state, const TrainingState& run);
/// Restores the iteration, the loss scale, the history, which check_state() accepted, the positions
/// of the data sources, and what layers carry. A source with another number of records starts from
/// the beginning, with a warning. Error if a source has no record at its position.
void restore_state(const SolverState& state, TrainingState& run);

}  // namespace crema
