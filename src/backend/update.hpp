// What the solver does with all parameters at once, on the device where they lie: nothing but a
// number comes back. In backend/cuda, with a stub in backend/none.
#pragma once

#include "backend/device.hpp"
#include "backend/update_math.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// SGD in one pass. `runs.runs` is device memory; gradients, parameters and history are of the
/// arena's size. False when some step was not finite.
bool device_sgd(DeviceBackend& backend, const UpdateRuns& runs, const SgdStep& step,
                Regularization regularization, const Tensor& gradients, Tensor& parameters,
                Tensor& history);

/// The sum of squares over all runs, in double, in the same order every time.
double device_squares(DeviceBackend& backend, const UpdateRuns& runs, const Tensor& values);

}  // namespace crema
