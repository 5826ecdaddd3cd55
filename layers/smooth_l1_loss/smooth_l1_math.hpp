// The function of SmoothL1Loss: 0.5 * (sigma * d)^2 where |d| < 1 / sigma^2, else |d| - 0.5 /
// sigma^2.
#pragma once

#include "core/functor.hpp"

namespace crema {

struct SmoothL1 {
  double square = 1;  // of sigma

  CREMA_FUNCTOR double value(double d) const {
    const double size = d < 0 ? -d : d;
    return size * square < 1 ? 0.5 * square * d * d : size - 0.5 / square;
  }
  CREMA_FUNCTOR double slope(double d) const {
    const double size = d < 0 ? -d : d;
    return size * square < 1 ? square * d : d > 0 ? 1 : d < 0 ? -1 : d;  // NaN stays
  }
};

}  // namespace crema
