// What losses and measures share: base classes of those with labels, checked labels, and the
// divisor of a sum over positions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/axis_split.hpp"
#include "core/gradient_paths.hpp"
#include "kit/two_sided.hpp"

namespace crema {

/// The first axis N of bottoms 0 and 1, which a loss compares value by value. Error unless both
/// have the same N and the same number of values.
int64_t compared_items(Blobs bottom);

/// The labels of (outer, inner) positions, checked and converted to integers.
class Labels {
 public:
  /// Reads one label for each position from `labels` (f32 or f64). Error, with label, position and
  /// range, if a label is neither a whole number in [0, classes) nor `ignore`. `way_out` ends the
  /// message, if it is not empty.
  void read(const Tensor& labels, int64_t inner, int64_t classes, std::optional<int> ignore,
            std::string_view way_out = {});

  /// i32, one for each position: the class, or -1 if the position is ignored.
  const Tensor& classes() const { return classes_; }
  /// Number of positions that are not ignored.
  int64_t valid() const { return valid_; }

 private:
  Tensor classes_{Shape{0}, DType::i32};
  int64_t valid_ = 0;
};

/// Divisor of a loss that was summed over positions (LossParameter).
class LossNormalization {
 public:
  enum class Mode : uint8_t { full, valid, batch_size, none, fixed };

  /// Uses `normalization`; if it is not set, the deprecated `normalize`; if neither is set, `mode`.
  explicit LossNormalization(const LayerParameter& param, Mode mode = Mode::valid);

  Mode mode() const { return mode_; }

  /// At least 1, so that the loss is 0 if all labels are ignored; a fixed one is as given.
  double divisor(int64_t outer, int64_t inner, int64_t valid) const;

 private:
  Mode mode_;
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
  /// `axis`: the axis of the classes; negative values count from the end.
  LabelledLayer(const LayerInit& init, int axis, std::optional<int> ignored)
      : TwoSidedLayer(init), axis_(axis), ignored_(ignored) {}

  /// For reshape. Error unless there are classes, and one label for each position.
  void reshape_scores(Blobs bottom);
  /// For reshape, before reshape_scores: whether bottom 1 has the shape of the scores of several
  /// classes, and so holds a probability for each of them.
  bool reshape_probabilities(Blobs bottom);
  /// The same where all values of an item are the scores of its classes, whatever their axes.
  void reshape_items(Blobs bottom);
  /// For forward. Reads and checks the labels on the host, and returns them in the memory of the
  /// side.
  const int32_t* read_labels(const Side& side, Blobs bottom);
  /// The labels of the last read_labels(); -1: ignored.
  const int32_t* labels(const Side& side) const { return side.read<int32_t>(labels_.classes()); }
  int64_t valid_labels() const { return labels_.valid(); }
  const AxisSplit& scores() const { return scores_; }

 private:
  int axis_;
  std::optional<int> ignored_;
  AxisSplit scores_;
  Labels labels_;
};

/// loss_param.ignore_label, if it is set.
std::optional<int> ignored_label(const LayerParameter& param);

/// Only SoftmaxWithLoss (`of_softmax`) reads label_smoothing and class weights. Error if loss_param
/// of another loss sets the first; warns of the others.
void check_loss_settings(const LayerInit& init, bool of_softmax);

/// A loss summed over positions, with the settings of loss_param.
class LabelLoss : public LabelledLayer, public GradientPaths {
 public:
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }
  bool has_gradient(int top) const override { return top == 0; }

 protected:
  /// `of_softmax`: see check_loss_settings().
  LabelLoss(const LayerInit& init, int axis, bool of_softmax = false);

  /// The divisor of the loss of the last forward.
  double divisor() const { return divisor(valid_labels()); }
  /// The same if `valid` positions are not ignored.
  double divisor(int64_t valid) const {
    return normalization_.divisor(scores().outer, scores().inner, valid);
  }

 private:
  LossNormalization normalization_;
};

}  // namespace crema
