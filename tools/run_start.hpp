// What `crema train` looks at and says before the first iteration.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "crema/solver.hpp"

namespace crema::tools {

/// Files of another run at the place of the run's snapshots.
class OtherRun {
 public:
  /// Looks for them. If the run takes snapshots: an Error that names them and the ways out; with
  /// --overwrite, or called as the published program, a warning alone. `state`: the snapshot that
  /// the run continues from, "" for a run that starts; its own run may go on with its prefix.
  /// `at_signals`: signals take snapshots. A run that takes no others is warned, and goes on
  /// without those.
  void look_for(const SolverParameter& param, const SourceMap& source, const std::string& state,
                bool at_signals);
  /// What the run may do of what signals ask for: no snapshot among the files, which is said.
  SolverAction allowed(SolverAction asked) const;
  /// With --overwrite: the run removes the states of the other one, its best and its last, so that
  /// --resume takes none of them. It does so behind its own first snapshot: until then there is
  /// nothing in their place. Wraps Solver::on_snapshot as it is at present.
  void replace_with(Solver& solver);

 private:
  struct File {
    std::string path;
    ino_t number;  // another one, once the run has written a file of this name
  };

  static void remove(const File& file, const std::string& state);

  std::string refused_;         // why signals take no snapshot; "": they may
  std::vector<File> replaced_;  // what replace_with() removes
};

/// Says how many parameters train and how many are frozen, which classes and how many records the
/// data have, how many epochs the run takes, and what memory is planned.
void say_what_trains(Solver& solver, const SolverParameter& param);

}  // namespace crema::tools
