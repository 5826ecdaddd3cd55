// Softmax of all positions as passes on either side, for the rooms that have it inside.
#pragma once

#include <type_traits>

#include "kit/passes.hpp"
#include "layers/softmax/softmax_kernels.hpp"
#include "layers/softmax/softmax_math.hpp"

namespace crema {

/// y = exp(x) / sum of exp(x) around the axis of classes. y may be x, or null where it is not
/// wanted; log_sum, the logarithm of the sum of exponentials, one a position, may be null.
template <class T>
struct SoftmaxForward {
  AxisSplit split;
  const T* x;
  T* y;
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
        softmax_forward(x + at, y ? y + at : nullptr, split.size, split.inner, lanes);
    if (log_sum && lanes.first == 0) log_sum[i] = sum;
  }
};

/// dx = y * (dy - sum of dy * y around the axis of classes); dx may be dy.
template <class T>
struct SoftmaxBackward {
  AxisSplit split;
  const T* dy;
  const T* y;
  T* dx;

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
    softmax_backward(dy + at, y + at, dx + at, split.size, split.inner, lanes);
  }
};

}  // namespace crema
