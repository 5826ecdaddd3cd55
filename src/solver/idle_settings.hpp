// Warnings of a solver and nets that do not fit each other.
#pragma once

#include <memory>
#include <vector>

#include "crema/net.hpp"

namespace crema {

class SolverParameter;  // proto/solver.proto

/// Warns of settings for detectors where no test net is one.
void warn_of_detection_settings(const SolverParameter& param,
                                const std::vector<std::unique_ptr<Net>>& tests, Context& context);
/// The training net has no loss.
class NoLossError : public Error {
 public:
  using Error::Error;
};

/// Warns of a net that no iteration changes. `needs_loss`: NoLossError if it has no loss.
void warn_if_idle(Net& net, bool needs_loss);

}  // namespace crema
