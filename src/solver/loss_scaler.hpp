// LossScaler: the factor on the losses in backward where it follows the gradients, which keeps
// those of f16 between its smallest and its largest value.
#pragma once

namespace crema {

class LossScaler {
 public:
  /// `held`: updates since the factor changed.
  explicit LossScaler(double scale = kFirst, int held = 0) : scale_(scale), held_(held) {}

  double scale() const { return scale_; }
  int held() const { return held_; }
  /// Whether a lower factor is left to try.
  bool can_fall() const { return scale_ > kLeast; }
  /// A gradient was not finite, so there is no update. Returns false if a lower factor cannot help:
  /// the values themselves are not finite then.
  bool overflowed() {
    held_ = 0;
    if (!can_fall()) return false;
    scale_ /= kFactor;
    return true;
  }
  /// The parameters were updated.
  void updated() {
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

}  // namespace crema
