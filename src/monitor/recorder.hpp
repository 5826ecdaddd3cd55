// Recorder: writes what a Solver does to the folder of its run. A write that fails is a warning,
// once, and training goes on.
//
//   RunInfo info = describe_run(solver, param);
//   Recorder recorder(solver, param, info, make_numbered_run("runs", info.net()));
//   recorder.attach();          // behind all others that set the solver's hooks
//   solver.solve();
//   recorder.end(reason_of(solver.end()));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "crema/solver.hpp"
#include "proto/run.pb.h"

namespace crema {

struct RecorderOptions {
  /// The run goes on: solver.iteration() is that of its snapshot, and the folder has what was
  /// before. What it says of later iterations is removed, so that no curve has a point twice.
  bool resumed = false;
};

class Recorder {
 public:
  /// Takes the folder, which exists, and writes run.json, the solver and the nets into it. The
  /// solver outlives this object. Error if another process is writing the run, or if the folder
  /// cannot be written to at all.
  Recorder(Solver& solver, const SolverParameter& param, const RunInfo& info,
           const std::string& folder, RecorderOptions options = {});
  /// Without end(): the run has no END, as that of a killed process.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const std::string& folder() const;

  /// Wraps Solver::on_iteration, on_test, on_snapshot and on_note as they are at present: those are
  /// called first. Snapshots name the folder from now on (Solver::set_run_folder).
  void attach();
  /// Gives the solver the hooks back that it had before attach().
  void detach();

  /// Records what the program did by itself.
  void note(const std::string& text);
  /// Records the end, `text` being the message of an error, and waits for nothing else.
  void end(RunRecord::Reason reason, const std::string& text = "");

  /// Called when the folder has what a report shows: behind snapshots, so often that it takes a
  /// thousandth of the time of training, and behind end(). An Error of it is a warning, once.
  std::function<void()> on_folder_changed;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Why solve() or step() returned; FAILED where it did not.
RunRecord::Reason reason_of(SolverEnd end);

/// What run.json says of a solver whose nets are made: all but name, command, parent and
/// solver_file.
RunInfo describe_run(Solver& solver, const SolverParameter& param);

}  // namespace crema
