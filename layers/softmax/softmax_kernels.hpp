// Softmax of many positions on one thread of the CPU, in f32.
#pragma once

#include <cstdint>

#include "core/axis_split.hpp"

namespace crema {

/// Of positions [begin, end) of the split around the axis of classes. y may be x, or null where it
/// is not wanted; log_sum, the logarithm of the sum of exponentials of each of these positions, may
/// be null.
void softmax_positions(const AxisSplit& shape, int64_t begin, int64_t end, const float* x, float* y,
                       double* log_sum);

/// dx may be dy.
void softmax_positions_gradient(const AxisSplit& shape, int64_t begin, int64_t end, const float* dy,
                                const float* y, float* dx);

}  // namespace crema
