// TanH, written once for the CPU and CUDA.
#pragma once

#include <cmath>

#include "backend/functor.hpp"

namespace crema {

struct TanHMath {
  static constexpr bool reads_x = false;
  static constexpr bool reads_y = true;
  static constexpr bool keeps_zero = true;

  template <class T>
  CREMA_FUNCTOR T forward(T x) const {
    return std::tanh(x);
  }
  template <class T>
  CREMA_FUNCTOR T backward(T dy, T /*x*/, T y) const {
    return dy * (T{1} - y * y);
  }
};

}  // namespace crema
