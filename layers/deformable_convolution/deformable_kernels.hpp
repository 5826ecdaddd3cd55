// The inner loops of deformable convolution on the CPU, in f32 and f64 by Highway: the channels of
// a pixel are neighbours, and lanes. A point has `corners` pixels, 0 to 4.
#pragma once

#include <cstdint>

namespace crema {

template <class T>
struct DeformableKernels {
  /// to[c] = the sum of weights[k] * from[k][c]
  void (*sample)(int corners, const T* const* from, const T* weights, int64_t channels, T* to);
  /// to[k][c] += weights[k] * values[c]. The pixels differ.
  void (*spread)(int corners, T* const* to, const T* weights, int64_t channels, const T* values);
  /// sums[k] += the sum of from[k][c] * values[c]
  void (*dots)(int corners, const T* const* from, int64_t channels, const T* values, double* sums);
};

/// For the instructions that this processor has. T: float or double.
template <class T>
const DeformableKernels<T>& deformable_kernels();

}  // namespace crema
