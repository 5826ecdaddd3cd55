// Passes over device memory that several rooms share. Plain C++: callable from files that nvcc does
// not compile. T: float or double; all run in the backend's stream.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/cuda/cuda_backend.hpp"

namespace crema {

/// y = relu(y + bias) for y of (outer, channels, inner) and bias (channels). Either may be absent:
/// `bias` null, `slope` (of ReLU for negative values) nullopt.
template <class T>
void cuda_add_bias(CudaBackend& backend, int64_t outer, int64_t channels, int64_t inner,
                   const T* bias, std::optional<float> slope, T* y);

/// bias_diff = beta * bias_diff + sum of dy over outer and inner; beta 0 overwrites. Sums are in
/// double, in the same order every time.
template <class T>
void cuda_bias_gradient(CudaBackend& backend, int64_t outer, int64_t channels, int64_t inner,
                        const T* dy, T beta, T* bias_diff);

/// dx = dy where y > 0, else slope * dy; dx may be dy.
template <class T>
void cuda_undo_relu(CudaBackend& backend, int64_t count, float slope, const T* dy, const T* y,
                    T* dx);

}  // namespace crema
