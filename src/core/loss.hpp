// What the losses and measures over labels have in common: checking labels, and what a sum over
// positions is divided by.
#pragma once

#include <cstdint>
#include <optional>

#include "crema/tensor.hpp"

namespace crema {

class LayerParameter;

/// Labels of (outer, inner) positions, checked and as whole numbers.
class Labels {
 public:
  /// Reads one label a position from `labels` (f32 or f64). Error, naming label, position and
  /// range, for one that is no whole number in [0, classes) and not `ignore` either.
  void read(const Tensor& labels, int64_t inner, int64_t classes, std::optional<int> ignore);

  /// i32, one a position: the class, or -1 where it is ignored.
  Tensor& classes() { return classes_; }
  const int32_t* data() const { return classes_.host<int32_t>(); }
  /// Positions that are not ignored.
  int64_t valid() const { return valid_; }

 private:
  Tensor classes_{Shape{0}, DType::i32};
  int64_t valid_ = 0;
};

/// Divisor of a loss that was summed over positions (LossParameter).
class LossNormalization {
 public:
  enum class Mode : uint8_t { full, valid, batch_size, none, fixed };

  /// `normalization`, or else the deprecated `normalize`, or else VALID.
  explicit LossNormalization(const LayerParameter& param);

  Mode mode() const { return mode_; }
  /// At least 1, so that a batch whose labels are all ignored has loss 0.
  double divisor(int64_t outer, int64_t inner, int64_t valid) const;

 private:
  Mode mode_ = Mode::valid;
  double fixed_ = 1;
};

/// `ignore_label` of the layer's loss_param.
std::optional<int> ignored_label(const LayerParameter& param);

}  // namespace crema
