// The published learning-rate policies.
#pragma once

#include <string>
#include <vector>

#include "model/source_map.hpp"

namespace crema {

class SolverParameter;

/// The learning rate as a function of the iteration. The formulas stand in proto/solver.proto.
class RatePolicy {
 public:
  /// Error for an unknown policy (with the nearest name), or one that lacks a setting it needs.
  explicit RatePolicy(const SolverParameter& param, const SourceMap& source = {});

  double rate(int iteration) const;
  /// How often "step" or "multistep" has lowered the rate by then; 0 for the others.
  int steps_passed(int iteration) const;

 private:
  enum class Kind { fixed, step, exp, inv, multistep, poly, sigmoid };
  Kind kind_ = Kind::fixed;
  double base_ = 0, gamma_ = 0, power_ = 0;
  int step_ = 0, max_iter_ = 0;
  std::vector<int> steps_;
};

}  // namespace crema
