// What `crema train` looks at and says before the first iteration.
#pragma once

#include <string>

#include "crema/solver.hpp"

namespace crema::tools {

/// Where the run would write over files of another one: an Error that names them and the ways out;
/// with --overwrite, or called as the published program, a message alone. `state`: the snapshot
/// that the run continues from, "" for a run that starts; its own run may go on with its prefix.
void check_other_runs(const SolverParameter& param, const SourceMap& source,
                      const std::string& state);
/// With --overwrite: removes the states of that other run, so that --resume finds none of them.
void remove_other_states(const SolverParameter& param, const SourceMap& source);

/// Says how many parameters train and how many are frozen, which classes and how many records the
/// data have, how many epochs the run takes, and what memory is planned.
void say_what_trains(Solver& solver, const SolverParameter& param);

}  // namespace crema::tools
