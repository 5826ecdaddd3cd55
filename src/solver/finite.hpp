// Finding out where a number stopped being one.
#pragma once

#include "crema/net.hpp"

namespace crema {

/// Throws an Error that names the first parameter, or else the first layer and blob, with a value
/// that is not finite. Runs the net forward again, on the batch that is there.
[[noreturn]] void throw_not_finite(Net& net, int iteration, double loss);

/// For an update that was not finite: names the batch's blob, or else the first gradient, that
/// holds such a value.
[[noreturn]] void throw_not_finite_gradient(Net& net, int iteration);

}  // namespace crema
