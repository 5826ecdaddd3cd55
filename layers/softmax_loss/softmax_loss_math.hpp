// The gradient of SoftmaxWithLoss for one element, written once for the CPU and CUDA.
#pragma once

#include <cstdint>

#include "backend/functor.hpp"

namespace crema {

/// dx = scale * (probability - target). The target of a position gives 1 - smoothing to its label,
/// and spreads smoothing over all classes evenly.
struct SoftmaxLossMath {
  double scale = 1;  // loss weight / divisor
  double label_target = 1;
  double other_target = 0;

  SoftmaxLossMath() = default;
  SoftmaxLossMath(double gradient_scale, double smoothing, int64_t classes)
      : scale(gradient_scale),
        label_target(1 - smoothing + smoothing / static_cast<double>(classes)),
        other_target(smoothing / static_cast<double>(classes)) {}

  /// label -1: the position is ignored.
  template <class T>
  CREMA_FUNCTOR T backward(T probability, int64_t c, int32_t label) const {
    if (label < 0) return T{0};
    return T(scale) * (probability - T(c == label ? label_target : other_target));
  }
};

}  // namespace crema
