// The trials of a sweep (proto/sweep.proto), before one of them runs.
#pragma once

#include <string>
#include <vector>

#include "model/source_map.hpp"
#include "proto/solver.pb.h"
#include "proto/sweep.pb.h"

namespace crema {

struct PlannedTrial {
  std::string name;               // "trial-03"
  std::vector<std::string> vary;  // what differs, as of SolverOptions::set: "base_lr=0.01"
};

struct SweepPlan {
  SweepParameter param;
  SolverParameter solver;  // of the file; without `set`
  SourceMap solver_source;
  std::vector<PlannedTrial> trials;
};

/// Reads a sweep's file and its solver, and lists the trials: of a grid in its order, the last
/// setting first to change; of a random search as `seed` draws them, so that more trials begin with
/// the same ones. Error, with its place in the file, for a field that is unknown, a range without
/// values, a field that is varied twice, values that the solver or its nets refuse, and too many
/// trials.
SweepPlan plan_sweep(const std::string& path);

/// The settings of all trials together with those of one.
std::vector<std::string> settings_of(const SweepPlan& plan, const PlannedTrial& trial);

}  // namespace crema
