// The loss of one value of a location: of its difference from what it should be.
#pragma once

#include "core/functor.hpp"
#include "layers/smooth_l1_loss/smooth_l1_math.hpp"

namespace crema {

inline constexpr int kEdges = 4;  // of a box

struct LocationMath {
  bool smooth_l1;
  CREMA_FUNCTOR double value(double d) const {
    return smooth_l1 ? SmoothL1{}.value(d) : 0.5 * d * d;
  }
  CREMA_FUNCTOR double slope(double d) const { return smooth_l1 ? SmoothL1{}.slope(d) : d; }
};

}  // namespace crema
