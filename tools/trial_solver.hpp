// The solver of `crema find-lr` and `crema find-batch`: that of a training, which writes nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema/solver.hpp"

namespace crema {
class SolverParameter;
}  // namespace crema

namespace crema::tools {

/// Without what tests, writes files or ends a run: the settings of a trial.
void keep_training_alone(SolverParameter& param);

struct TrialSolver {
  std::unique_ptr<Context> context;
  std::unique_ptr<Solver> solver;
  std::vector<std::string> inputs;  // the files of the command line
};

/// The solver of --solver with the values of --set, the layers of --freeze, and the weights of
/// --weights or the state of --snapshot.
TrialSolver make_trial_solver();

}  // namespace crema::tools
