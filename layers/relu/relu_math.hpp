// ReLU, written once for the CPU and CUDA.
#pragma once

#include "backend/functor.hpp"

namespace crema {

/// Always inline, since the passes of other rooms that absorbed a ReLU are compiled for several
/// widths of vectors. y = max(x, 0) + slope * min(x, 0). Backward needs the sign of x: that of y
/// while slope >= 0, so that x may be overwritten; x itself (kFromInput) where a negative slope
/// folds both signs into one.
template <bool kFromInput>
struct ReLUMathFrom {
  static constexpr bool reads_x = kFromInput;
  static constexpr bool reads_y = !kFromInput;
  static constexpr bool keeps_zero = true;

  float slope = 0;

  // The comparison lets NaN through, and the sum makes 0 of -0. Slope 0 is no factor: 0 * -inf is
  // NaN.
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T forward(T x) const {
    return x < T{0} ? scaled(x) : x + T{0};
  }
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T backward(T dy, T x, T y) const {
    return (kFromInput ? x : y) > T{0} ? dy : scaled(dy);
  }
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T scaled(T value) const {
    return slope == 0 ? T{0} : T(slope) * value;
  }
};

using ReLUMath = ReLUMathFrom<false>;
using NegativeSlopeReLUMath = ReLUMathFrom<true>;

}  // namespace crema
