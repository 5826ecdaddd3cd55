// What a device computes around products whose result is (rows, columns): bias and ReLU, and their
// gradients.
//
// All run in the stream of the device; pointers are there. Rows are of f32, bf16 or f16. The
// functions are in backend/cuda, and in backend/none for the device of the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/device.hpp"

namespace crema {

struct DeviceRows {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
};

/// y = relu(y + bias); bias (f32) may be null.
void device_finish_rows(DeviceBackend& backend, const DeviceRows& of, const float* bias,
                        std::optional<float> relu, void* y);

/// dx = dy through the ReLU that gave y, where there is one; dx may be dy. dbias = beta * dbias +
/// the sums of dx over the rows, unless it is null. Takes scratch memory.
void device_undo_and_sum_rows(DeviceBackend& backend, const DeviceRows& of, const void* dy,
                              const void* y, std::optional<float> relu, void* dx, float beta,
                              float* dbias);
/// That scratch memory.
size_t device_undo_and_sum_scratch(const DeviceRows& of);

}  // namespace crema
