// Sigmoid, written once for the CPU and CUDA.
#pragma once

#include <cmath>

#include "backend/functor.hpp"

namespace crema {

/// y = 1 / (1 + exp(-x)); exp may overflow to infinity, which gives 0 as it should.
struct SigmoidMath {
  static constexpr bool reads_x = false;
  static constexpr bool reads_y = true;
  static constexpr bool keeps_zero = false;

  template <class T>
  CREMA_FUNCTOR T forward(T x) const {
    return T{1} / (T{1} + std::exp(-x));
  }
  template <class T>
  CREMA_FUNCTOR T backward(T dy, T /*x*/, T y) const {
    return dy * y * (T{1} - y);
  }
};

}  // namespace crema
