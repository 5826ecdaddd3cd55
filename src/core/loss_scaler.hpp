// LossScaler: the factor on the losses in backward where it follows the gradients, which keeps
// those of f16 between its smallest and its largest value. The host and a device run the same
// functions, so that both know the factor of each iteration.
#pragma once

#include <cstdint>

#include "core/functor.hpp"

namespace crema {

class LossScaler {
 public:
  /// `held`: updates since the factor changed.
  CREMA_FUNCTOR explicit LossScaler(double scale = kFirst, int held = 0)
      : scale_(scale), held_(held) {}

  CREMA_FUNCTOR double scale() const { return scale_; }
  CREMA_FUNCTOR int held() const { return held_; }
  /// Whether a lower factor is left to try.
  CREMA_FUNCTOR bool can_fall() const { return scale_ > kLeast; }
  /// A gradient was not finite, so there is no update. Returns false if a lower factor cannot help:
  /// the values themselves are not finite then.
  CREMA_FUNCTOR bool overflowed() {
    held_ = 0;
    if (!can_fall()) return false;
    scale_ /= kFactor;
    return true;
  }
  /// The parameters were updated.
  CREMA_FUNCTOR void updated() {
    if (++held_ < kPatience) return;
    held_ = 0;
    if (scale_ < kMost) scale_ *= kFactor;
  }

  static constexpr double kFirst = 65536, kLeast = 1, kMost = 16777216, kFactor = 2;
  static constexpr int kPatience = 2000;

 private:
  double scale_;
  int held_;
};

/// In the memory of a device: what seeds of backward are multiplied by there, and what updates
/// divide by.
struct LossScaleState {
  LossScaler scaler{1};
  int32_t follows = 0;  // 1: updates change it, by the gradients
};

}  // namespace crema
