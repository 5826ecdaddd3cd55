// What losses and measures over labels have in common: scores and the positions that they belong
// to, checked labels, and what a sum over positions is divided by.
#pragma once

#include <cstdint>
#include <optional>

#include "core/axis_split.hpp"
#include "kit/two_sided.hpp"

namespace crema {

/// Labels of (outer, inner) positions, checked and as whole numbers.
class Labels {
 public:
  /// Reads one label a position from `labels` (f32 or f64). Error, naming label, position and
  /// range, for one that is no whole number in [0, classes) and not `ignore` either.
  void read(const Tensor& labels, int64_t inner, int64_t classes, std::optional<int> ignore);

  /// i32, one a position: the class, or -1 where it is ignored.
  const Tensor& classes() const { return classes_; }
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

/// A layer of scores (outer, classes, inner), bottom 0, and one label for each position, bottom 1.
class LabelledLayer : public TwoSidedLayer {
 public:
  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 2, .min_tops = 1, .max_tops = 2};
  }
  bool can_propagate(int bottom) const override { return bottom == 0; }

 protected:
  /// `axis`: of the classes, as the message has it.
  LabelledLayer(const LayerInit& init, int axis, std::optional<int> ignored)
      : TwoSidedLayer(init), axis_(axis), ignored_(ignored) {}

  /// For reshape: Error unless there are classes, and as many labels as positions.
  void reshape_scores(Blobs bottom);
  /// For forward: reads and checks the labels on the host, where they come from as a rule, and
  /// gives them to the side.
  const int32_t* read_labels(const Side& side, Blobs bottom);
  /// As they were read last; -1: ignored.
  const int32_t* labels(const Side& side) const { return side.read<int32_t>(labels_.classes()); }
  int64_t valid_labels() const { return labels_.valid(); }
  const AxisSplit& scores() const { return scores_; }

 private:
  int axis_;
  std::optional<int> ignored_;
  AxisSplit scores_;
  Labels labels_;
};

/// A loss summed over positions, with the settings of loss_param.
class LabelLoss : public LabelledLayer {
 public:
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }

 protected:
  LabelLoss(const LayerInit& init, int axis);

  /// What the sum over the positions of the last forward is divided by.
  double divisor() const {
    return normalization_.divisor(scores().outer, scores().inner, valid_labels());
  }

 private:
  LossNormalization normalization_;
};

}  // namespace crema
