// What losses and measures share: base classes of those with labels, checked labels, and the
// divisor of a sum over positions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/axis_split.hpp"
#include "core/device_run.hpp"
#include "core/functor.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

/// The first axis N of bottoms 0 and 1, which a loss compares value by value. Error unless both
/// have the same N and the same number of values, in step.
int64_t compared_items(Blobs bottom);

/// Error if the `positions` of `a` and the values of `b`, which are read in step in the order of
/// memory, have as many axes but of other extents, such as maps of 10 x 12 and of 12 x 10: values
/// of one would meet those of other positions. Axes of size 1 do not count; another number of axes,
/// such as (N, H, W) and (N, H * W), may be read in step.
void check_in_step(const Blob& a, const Shape& positions, const Blob& b);
/// The shape without one of its axes.
Shape without_axis(const Shape& shape, int axis);

/// The labels of (outer, inner) positions, checked and converted to integers.
class Labels {
 public:
  /// Reads one label for each position from `labels` (f32 or f64). Error, with label, position and
  /// range, if a label is neither a whole number in [0, classes) nor `ignore` nor `background`.
  /// `way_out` ends the message, if it is not empty.
  void read(const Tensor& labels, int64_t inner, int64_t classes, std::optional<int> ignore,
            std::string_view way_out = {}, std::optional<int> background = {});

  /// The same on the device of the context of `layer`, queued: the run of the device reports a bad
  /// label, for which `explain` then throws.
  void read_on_device(const Layer& layer, const Tensor& labels, int64_t classes,
                      std::optional<int> ignore, std::optional<int> background,
                      const DeviceCheck::Explain& explain);

  /// i32, one for each position: the class, or -1 if the position is ignored, or the number of
  /// classes if it is background.
  const Tensor& classes() const { return classes_; }
  /// Number of positions that are not ignored; of labels on a device, where none is ignored,
  /// `positions`. Waits for the device where it counts them.
  int64_t valid(int64_t positions) const;
  /// Whether the labels were read on a device.
  bool on_device() const { return on_device_; }
  /// For such labels: their valid(), f64, if some may be ignored; else null.
  const Tensor* device_valid() const { return counts_on_device_ ? &device_valid_ : nullptr; }
  /// Throws the Error of a label.
  [[noreturn]] static void refuse(double label, int64_t index, int64_t inner, int64_t classes,
                                  std::string_view way_out = {});

 private:
  Tensor classes_{Shape{0}, DType::i32};
  int64_t valid_ = 0;
  std::unique_ptr<DeviceCheck> check_;
  bool on_device_ = false, counts_on_device_ = false;
  Tensor device_valid_{Shape{1}, DType::f64};
};

/// A divisor that the host knows, or that follows from a count in memory of a device.
struct LossDivisor {
  double known = 1;
  const double* count = nullptr;  // null: known
  CREMA_FUNCTOR double value() const {
    if (count == nullptr) return known;
    return *count > 1 ? *count : 1;
  }
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
  /// What the loss is the mean over.
  MeanUnits units(int64_t outer, int64_t inner, int64_t valid) const;

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
  /// For forward. Reads and checks the labels, and returns them in the memory of the side.
  const int32_t* read_labels(const ComputeDevice& device, Blobs bottom,
                             std::optional<int> background = {});
  /// The labels of the last read_labels(); -1: ignored.
  const int32_t* labels(const ComputeDevice& device) const {
    return device.read<int32_t>(labels_.classes());
  }
  /// See Labels::valid().
  int64_t valid_labels() const { return labels_.valid(scores_.positions()); }
  const Tensor* device_valid_labels() const { return labels_.device_valid(); }
  const AxisSplit& scores() const { return scores_; }

 private:
  int axis_;
  std::optional<int> ignored_;
  AxisSplit scores_;
  Labels labels_;
};

/// loss_param.ignore_label, if it is set.
std::optional<int> ignored_label(const LayerParameter& param);

/// loss_param.label_smoothing. Error unless it is a share.
double label_smoothing(const LayerParameter& param);

/// Error unless all values are probabilities: at each position of the split they sum to 1
/// (`distributions`), or each is one for itself.
void check_probabilities(const AxisSplit& split, const Tensor& values, bool distributions);

/// What a loss reads of loss_param, beside the divisor.
struct LossReads {
  bool ignore_label = true;
  bool class_weights = false;
  bool label_smoothing = false;
};

/// Error for a label_smoothing that the loss does not read; warns of other settings of loss_param
/// that have no effect on it.
void check_loss_settings(const LayerInit& init, const LossReads& reads);

/// A loss summed over positions, with the settings of loss_param.
class LabelLoss : public LabelledLayer {
 public:
  std::optional<MeanUnits> mean_over(int top, int64_t) const override {
    if (top != 0) return std::nullopt;
    return normalization_.units(scores().outer, scores().inner, counted_labels());
  }
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }
  bool has_gradient(int top) const override { return top == 0; }

 protected:
  LabelLoss(const LayerInit& init, int axis, const LossReads& reads);

  /// Labels that are not ignored, where bottom 1 has labels.
  virtual int64_t counted_labels() const { return valid_labels(); }
  /// The divisor of the loss of the last forward.
  double divisor() const { return divisor(valid_labels()); }
  /// The same if `valid` positions are not ignored.
  double divisor(int64_t valid) const {
    return normalization_.divisor(scores().outer, scores().inner, valid);
  }
  /// The same where the labels were read on a device: what divisor() does without a wait.
  LossDivisor device_divisor(const ComputeDevice& device) const;

 private:
  LossNormalization normalization_;
};

}  // namespace crema
