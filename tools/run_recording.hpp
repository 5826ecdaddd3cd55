// The folder of a run of `crema train`: which one it is, and what is written there.
#pragma once

#include <memory>
#include <string>

#include "crema/solver.hpp"
#include "model/source_map.hpp"
#include "monitor/recorder.hpp"
#include "tools/run_log.hpp"

namespace crema::tools {

class RunRecording {
 public:
  /// As --run_dir and CREMA_RUN_DIR say. Error if they name the folder of another run, which the
  /// run neither continues nor replaces.
  RunRecording();

  /// Whether there is going to be a folder.
  bool wanted() const { return folder_ != "none"; }
  /// Makes the folder, or takes the one of the run that is continued, and attaches a Recorder to
  /// the solver. `param` and `source`: the solver's message with what --set gives. A folder that
  /// nobody asked for and that cannot be made is a warning. Error for one that --run_dir names, and
  /// if another process is writing the run.
  void start(Solver& solver, Context& context, const SolverParameter& param,
             const SourceMap& source, bool is_continued);
  /// Null without a folder.
  Recorder* recorder() { return recorder_.get(); }
  /// The end of the run, however it came. Evaluates the weights for the report, unless it failed
  /// or was stopped.
  void end(RunRecord::Reason reason, const std::string& text = "");

 private:
  std::string choose_folder(Solver& solver, bool is_continued, bool* resumed) const;

  std::string folder_;  // as the user names it; "" where it is to be numbered
  bool is_asked_for_ = false;
  RunLog log_;
  Context* context_ = nullptr;
  Solver* solver_ = nullptr;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace crema::tools
