// What the solver does with all parameters at once, on the device where they lie: nothing but a
// number comes back. In backend/cuda, with a stub in backend/none.
#pragma once

#include <vector>

#include "backend/update_math.hpp"
#include "core/device.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// Arenas in device memory, of which what learns is current there.
struct UpdateArrays {
  DType dtype = DType::f32;  // or f64
  const void* gradients = nullptr;
  void* parameters = nullptr;
  std::vector<void*> histories = {};
  void* average = nullptr;  // of the parameters; null: none
};

/// As cpu_update of backend/cpu/update.hpp, with local rates where the settings say so. `runs.runs`
/// is device memory.
bool device_update(DeviceBackend& backend, const UpdateRuns& runs, const AnyUpdateRule& rule,
                   const UpdateSettings& settings, const UpdateStep& step,
                   const UpdateArrays& arrays);

/// The sum of squares of the gradients over all runs, in double, in the same order every time.
double device_squares(DeviceBackend& backend, const UpdateRuns& runs, const UpdateArrays& arrays);

}  // namespace crema
