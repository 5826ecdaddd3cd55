// What the solver does with all parameters at once, on the device where they lie: nothing but a
// number comes back. In backend/cuda, with a stub in backend/none.
#pragma once

#include <span>

#include "backend/device.hpp"
#include "backend/update_math.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// As cpu_update of backend/cpu/update.hpp. `runs.runs` is device memory.
bool device_update(DeviceBackend& backend, const UpdateRuns& runs, const AnyUpdateRule& rule,
                   const UpdateSettings& settings, const UpdateStep& step, const Tensor& gradients,
                   Tensor& parameters, std::span<Tensor> histories);

/// The sum of squares over all runs, in double, in the same order every time.
double device_squares(DeviceBackend& backend, const UpdateRuns& runs, const Tensor& values);

}  // namespace crema
