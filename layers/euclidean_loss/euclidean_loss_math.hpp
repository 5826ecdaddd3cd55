// EuclideanLoss for one element, written once for the CPU and CUDA.
#pragma once

#include "backend/functor.hpp"

namespace crema {

struct EuclideanLossMath {
  /// What one element adds to the loss, before division by 2 N.
  template <class T>
  CREMA_FUNCTOR double forward(T a, T b) const {
    const double difference = static_cast<double>(a) - static_cast<double>(b);
    return difference * difference;
  }
  /// The gradient of bottom 0; that of bottom 1 is its negative. scale: loss weight / N.
  template <class T>
  CREMA_FUNCTOR T backward(T a, T b, T scale) const {
    return scale * (a - b);
  }
};

}  // namespace crema
