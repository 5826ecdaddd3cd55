// The maximum of several bottoms, [begin, end) of their elements: f32 by Highway, f64 plain.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema {

/// y = the maximum of `count` arrays (EltwiseMaximum); `which`, unless null, is the number of the
/// array that it came from. y may lie where any of the arrays does.
void eltwise_maximum(const void* const* arrays, size_t count, int64_t begin, int64_t end, float* y,
                     uint8_t* which);
void eltwise_maximum(const void* const* arrays, size_t count, int64_t begin, int64_t end, double* y,
                     uint8_t* which);

/// dx = dy where the maximum came from array `self`, else 0; n elements.
void eltwise_maximum_gradient(const uint8_t* which, uint8_t self, const float* dy, float* dx,
                              int64_t n);
void eltwise_maximum_gradient(const uint8_t* which, uint8_t self, const double* dy, double* dx,
                              int64_t n);

}  // namespace crema
