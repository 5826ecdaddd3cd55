// Softmax of one position, written once for a thread of the CPU, a thread of CUDA and a warp.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// y = exp(x) / sum of exp(x) over `classes` values `stride` apart; returns log(sum of exp(x)).
/// y may be x, or null where only the logarithm is wanted. The largest value is taken off first, so
/// nothing overflows.
template <class T, class Lanes = OneLane>
CREMA_FUNCTOR double softmax_forward(const T* x, T* y, int64_t classes, int64_t stride,
                                     const Lanes& lanes = {}) {
  T largest = x[0];
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    if (x[c * stride] > largest) largest = x[c * stride];
  }
  largest = lanes.max(largest);
  double sum = 0;
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    const T power = std::exp(x[c * stride] - largest);
    sum += static_cast<double>(power);
    if (y) y[c * stride] = power;
  }
  sum = lanes.sum(sum);
  if (y) {
    const T scale = static_cast<T>(1 / sum);
    for (int64_t c = lanes.first; c < classes; c += lanes.count) y[c * stride] *= scale;
  }
  return static_cast<double>(largest) + std::log(sum);
}

/// dx = y * (dy - sum of dy * y); dx may be dy.
template <class T, class Lanes = OneLane>
CREMA_FUNCTOR void softmax_backward(const T* dy, const T* y, T* dx, int64_t classes, int64_t stride,
                                    const Lanes& lanes = {}) {
  double sum = 0;
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    sum += static_cast<double>(dy[c * stride]) * static_cast<double>(y[c * stride]);
  }
  sum = lanes.sum(sum);
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    dx[c * stride] = y[c * stride] * (dy[c * stride] - static_cast<T>(sum));
  }
}

}  // namespace crema
