// What the solver does with all parameters at once, on the device where they lie: nothing comes
// back but the report of the run. In backend/cuda, with a stub in backend/none that serves the
// device of the tests.
#pragma once

#include <vector>

#include "backend/copy_target.hpp"
#include "backend/update_math.hpp"
#include "core/device.hpp"
#include "core/device_report.hpp"
#include "core/loss_scaler.hpp"
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

/// What differs between updates, in memory of the device: kernels that were recorded read it there.
struct UpdateNumbers {
  UpdateSettings settings;
  UpdateStep step;
  double most_norm = 0;  // of the gradients, before they are scaled down to it; 0: no limit
};

template <class Rule>
struct UpdateBlock {
  UpdateNumbers numbers;
  Rule rule;
};

/// Bytes of any UpdateBlock.
inline constexpr size_t kUpdateBlockBytes = 512;

/// The step of an update whose gradients have the factor of the state; null: none. `most_norm` is
/// without it.
CREMA_FUNCTOR UpdateStep scaled_step(const UpdateNumbers& numbers, const LossScaleState* scale) {
  UpdateStep step = numbers.step;
  if (scale != nullptr) step.gradient_scale /= scale->scaler.scale();
  return step;
}

/// Behind the sum of squares of the gradients: scales the step, or fails where the sum is none.
CREMA_FUNCTOR void limit_norm(RunBlock& run, UpdateNumbers& numbers, const LossScaleState* scale,
                              double squares) {
  const double norm = sqrt(squares) / (scale != nullptr ? scale->scaler.scale() : 1);
  if (!(norm - norm == 0)) {
    run.fail(DeviceFailure::gradient);
  } else if (norm > numbers.most_norm) {
    numbers.step.gradient_scale *= numbers.most_norm / norm;
  }
}

/// Behind the update. Where the loss scale follows the gradients, one that is not finite is no
/// failure as long as the scale can become smaller. A step that is not finite has reached the
/// parameters, which no scale mends.
CREMA_FUNCTOR void finish_update(RunBlock& run, LossScaleState* scale) {
  DeviceReport& report = run.report;
  if (report.bad_step != 0) run.fail(DeviceFailure::step);
  report.bad_step = 0;
  report.skipped = 0;
  if (scale == nullptr || scale->follows == 0) return;
  if (!run.failed()) return scale->scaler.updated();
  if (report.failure != DeviceFailure::gradient || !scale->scaler.overflowed()) return;
  report.failure = DeviceFailure::none;
  report.skipped = 1;
}

/// An update of a device.
struct DeviceUpdate {
  UpdateRuns runs;  // in memory of the device, as all pointers here
  UpdateArrays arrays;
  void* block = nullptr;  // UpdateBlock of the rule
  RunBlock* run = nullptr;
  LossScaleState* loss_scale = nullptr;  // null: the gradients have no factor
  CopyTable copies = {};                 // of the parameters, which are written with them
};

/// Queued: as cpu_update of backend/cpu/update.hpp, with local rates and the limit of the norm
/// where the numbers say so. Nothing changes if the run has failed, or if a gradient is not finite,
/// which is a failure then; a step that is not finite is one too. `rule` and `numbers` are those in
/// the block: they choose the kernels.
void device_update(DeviceBackend& backend, const DeviceUpdate& update, const AnyUpdateRule& rule,
                   const UpdateNumbers& numbers);

}  // namespace crema
