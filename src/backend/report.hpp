// Where forward ends and backward begins: what the device reports of a pass
// (core/device_report.hpp), and the seeds of the gradients. In backend/cuda, with a stub in
// backend/none that serves the device of the tests.
#pragma once

#include <span>

#include "core/device.hpp"
#include "core/device_report.hpp"
#include "core/loss_scaler.hpp"

namespace crema {

/// The values of a loss in memory of the device, f32 or f64, each of which has the weight.
struct LossTerm {
  const void* values = nullptr;
  DType dtype = DType::f32;
  int64_t count = 0;
  double weight = 0;
};

/// The sum of a loss by one thread, in the order of the values.
CREMA_FUNCTOR double sum_of(const LossTerm& term) {
  double sum = 0;
  for (int64_t i = 0; i < term.count; ++i) {
    sum += term.dtype == DType::f32 ? static_cast<double>(static_cast<const float*>(term.values)[i])
                                    : static_cast<const double*>(term.values)[i];
  }
  return sum * term.weight;
}

/// Queued behind a forward pass: the report gets the sum of its losses, and of those of the passes
/// before in the iteration unless it is the first.
void device_losses(DeviceBackend& backend, RunBlock* block, std::span<const LossTerm> terms,
                   bool first_pass);

/// Queued: each value of a diff, f32 or f64, becomes `weight` times the loss scale, or grows by it.
void device_seed(DeviceBackend& backend, const LossScaleState* scale, DType dtype, int64_t count,
                 double weight, bool adds, void* diff);

/// A seed, as a pass over the values.
template <class T>
struct SeedElement {
  const LossScaleState* scale;
  double weight;
  bool adds;
  T* diff;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T value = static_cast<T>(weight * scale->scaler.scale());
    diff[i] = adds ? diff[i] + value : value;
  }
};

}  // namespace crema
