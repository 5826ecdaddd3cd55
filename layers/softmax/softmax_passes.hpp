// Softmax of all positions as passes on either side, for the rooms that have it inside.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/axis_split.hpp"
#include "core/functor.hpp"
#include "layers/softmax/softmax_kernels.hpp"

namespace crema {

// `In` and `Out` are pointers, or ValuesIn<T> and ValuesOut<T> (core/float_values.hpp).

// One position: by a thread of the CPU or of CUDA, or by a warp.

/// y = exp(x) / sum of exp(x) over `classes` values `stride` apart; returns log(sum of exp(x)).
/// y may be x, or null where only the logarithm is wanted. The largest value is taken off first, so
/// nothing overflows. What may be rounded as it is stored is computed again, not read back.
template <class T, class In, class Out, class Lanes = OneLane>
CREMA_FUNCTOR double softmax_forward(const In& x, const Out& y, int64_t classes, int64_t stride,
                                     const Lanes& lanes = {}) {
  T largest = x[0];
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    const T value = x[c * stride];
    if (value > largest) largest = value;
  }
  largest = lanes.max(largest);
  double sum = 0;
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    const T power = std::exp(x[c * stride] - largest);
    sum += static_cast<double>(power);
    if constexpr (std::is_pointer_v<Out>) {
      if (y) y[c * stride] = power;
    }
  }
  sum = lanes.sum(sum);
  if (y) {
    const T scale = static_cast<T>(1 / sum);
    for (int64_t c = lanes.first; c < classes; c += lanes.count) {
      if constexpr (std::is_pointer_v<Out>) {
        y[c * stride] *= scale;
      } else if constexpr (!std::is_null_pointer_v<Out>) {
        y[c * stride] = std::exp(x[c * stride] - largest) * scale;
      }
    }
  }
  return static_cast<double>(largest) + std::log(sum);
}

/// dx = y * (dy - sum of dy * y); dx may be dy.
template <class T, class In, class Out, class Lanes = OneLane>
CREMA_FUNCTOR void softmax_backward(const In& dy, const In& y, const Out& dx, int64_t classes,
                                    int64_t stride, const Lanes& lanes = {}) {
  double sum = 0;
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    sum += static_cast<double>(dy[c * stride]) * static_cast<double>(y[c * stride]);
  }
  sum = lanes.sum(sum);
  for (int64_t c = lanes.first; c < classes; c += lanes.count) {
    dx[c * stride] = y[c * stride] * (dy[c * stride] - static_cast<T>(sum));
  }
}

// All positions.

/// y = exp(x) / sum of exp(x) around the axis of classes. y may be x, or null where it is not
/// wanted; log_sum, the logarithm of the sum of exponentials, one a position, may be null.
template <class T, class In = const T*, class Out = T*>
struct SoftmaxForward {
  AxisSplit split;
  In x;
  Out y;
  double* log_sum;

  void on_host(int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<T, float>) {
      softmax_positions(split, begin, end, x, y, log_sum ? log_sum + begin : nullptr);
    } else {
      for (int64_t i = begin; i < end; ++i) (*this)(i);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t at = split.at(i);
    const double sum =
        softmax_forward<T>(x + at, y ? y + at : Out(), split.size, split.inner, lanes);
    if (log_sum && lanes.first == 0) log_sum[i] = sum;
  }
};

/// dx = y * (dy - sum of dy * y around the axis of classes); dx may be dy.
template <class T, class In = const T*, class Out = T*>
struct SoftmaxBackward {
  AxisSplit split;
  In dy, y;
  Out dx;

  void on_host(int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<T, float>) {
      softmax_positions_gradient(split, begin, end, dy, y, dx);
    } else {
      for (int64_t i = begin; i < end; ++i) (*this)(i);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t at = split.at(i);
    softmax_backward<T>(dy + at, y + at, dx + at, split.size, split.inner, lanes);
  }
};

}  // namespace crema
