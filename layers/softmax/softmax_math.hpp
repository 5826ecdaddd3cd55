// Softmax of one position, written once for the CPU and CUDA.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/functor.hpp"

namespace crema {

/// y = exp(x) / sum of exp(x) over `classes` values `stride` apart; returns log(sum of exp(x)).
/// y may be x, or null where only the logarithm is wanted. The largest value is taken off first, so
/// nothing overflows.
template <class T>
CREMA_FUNCTOR double softmax_forward(const T* x, T* y, int64_t classes, int64_t stride) {
  T largest = x[0];
  for (int64_t c = 1; c < classes; ++c) {
    if (x[c * stride] > largest) largest = x[c * stride];
  }
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const T power = std::exp(x[c * stride] - largest);
    sum += static_cast<double>(power);
    if (y) y[c * stride] = power;
  }
  if (y) {
    const T scale = static_cast<T>(1 / sum);
    for (int64_t c = 0; c < classes; ++c) y[c * stride] *= scale;
  }
  return static_cast<double>(largest) + std::log(sum);
}

/// dx = y * (dy - sum of dy * y); dx may be dy.
template <class T>
CREMA_FUNCTOR void softmax_backward(const T* dy, const T* y, T* dx, int64_t classes,
                                    int64_t stride) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    sum += static_cast<double>(dy[c * stride]) * static_cast<double>(y[c * stride]);
  }
  for (int64_t c = 0; c < classes; ++c) {
    dx[c * stride] = y[c * stride] * (dy[c * stride] - static_cast<T>(sum));
  }
}

}  // namespace crema
