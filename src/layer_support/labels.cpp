#include "layer_support/labels.hpp"

#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "layer_support/device_labels.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The axes that are not of size 1.
Shape wide_axes(const Shape& shape) {
  std::vector<int64_t> extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1) extents.push_back(shape[axis]);
  }
  return Shape(std::move(extents));
}

constexpr int64_t kCheckGrain = 2048;  // values that a thread should have at least
constexpr int64_t kBlock = 64;         // positions that are checked together

/// check_probabilities() of positions [begin, end), at most kBlock.
template <class T>
void check_block(const AxisSplit& split, int64_t begin, int64_t end, const T* values,
                 bool distributions) {
  constexpr double kNear = 1e-3;
  const int64_t count = end - begin;
  int64_t at[kBlock];
  double sums[kBlock] = {};
  for (int64_t i = 0; i < count; ++i) at[i] = split.at(begin + i);
  // Values of one class are often side by side.
  for (int64_t c = 0; c < split.size; ++c) {
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(values[at[i] + c * split.inner]);
      if (!(value >= 0 && value <= 1 + kNear))
        throw Error("the labels have the shape of the scores, and the value ", value, " of class ",
                    c, " at position ", begin + i, " is no probability; give 0 to 1, or one label ",
                    "for each position");
      sums[i] += value;
    }
  }
  for (int64_t i = 0; distributions && i < count; ++i) {
    if (!(sums[i] > 1 - kNear && sums[i] < 1 + kNear))
      throw Error("the labels have the shape of the scores, and the probabilities at position ",
                  begin + i, " sum to ", sums[i], "; they have to sum to 1");
  }
}

}  // namespace

Shape without_axis(const Shape& shape, int axis) {
  std::vector<int64_t> extents;
  for (int a = 0; a < shape.rank(); ++a) {
    if (a != shape.canonical_axis(axis)) extents.push_back(shape[a]);
  }
  return Shape(std::move(extents));
}

void check_in_step(const Blob& a, const Shape& positions, const Blob& b) {
  const Shape of_a = wide_axes(positions), of_b = wide_axes(b.shape());
  if (of_a.rank() != of_b.rank() || of_a == of_b) return;
  throw Error("'", a.name, "' (", a.shape().str(), ") and '", b.name, "' (", b.shape().str(),
              ") are read in step, but their positions are ", of_a.str(), " and ", of_b.str(),
              "; permute one of them, or, if the order in memory is the same, reshape it to the "
              "axes of the other");
}

int64_t compared_items(Blobs bottom) {
  const Shape &a = bottom[0]->shape(), &b = bottom[1]->shape();
  if (a.rank() <= 0 || b.rank() <= 0 || a[0] != b[0] || a.count() != b.count())
    throw Error("'", bottom[0]->name, "' (", a.str(), ") and '", bottom[1]->name, "' (", b.str(),
                ") cannot be compared; give both the same batch size and as many values an item");
  check_in_step(*bottom[0], a, *bottom[1]);
  return a[0];
}

void Labels::refuse(double label, int64_t index, int64_t inner, int64_t classes,
                    std::string_view way_out) {
  const std::string place =
      inner == 1 ? text("position ", index, " of the batch")
                 : text("position ", index % inner, " of item ", index / inner, " of the batch");
  const bool inside = label >= 0 && label < static_cast<double>(classes);
  if (way_out.empty()) {
    way_out = label >= static_cast<double>(classes)
                  ? "raise num_output of the layer before or fix the labels"
                  : "fix the labels";
  }
  throw Error("label ", label, " at ", place, " is ",
              inside ? "no whole number; labels are whole numbers in [0, " : "outside [0, ",
              classes, "): ", way_out)
      .of_sample(index / inner);
}

void Labels::read(const Tensor& labels, int64_t inner, int64_t classes, std::optional<int> ignore,
                  std::string_view way_out, std::optional<int> background) {
  on_device_ = counts_on_device_ = false;
  classes_.reshape(labels.shape());
  int32_t* out = classes_.overwrite<int32_t>();
  valid_ = 0;
  dispatch_float(labels.dtype(), [&]<class T>(T) {
    const T* in = labels.read<T>();
    const int64_t count = labels.count();
    for (int64_t i = 0; i < count; ++i) {
      if (ignore && in[i] == T(*ignore)) {
        out[i] = -1;
        continue;
      }
      if (background && in[i] == T(*background)) {
        out[i] = static_cast<int32_t>(classes);
        ++valid_;
        continue;
      }
      // Also false for NaN.
      if (!(in[i] >= T{0} && in[i] < T(classes))) refuse(in[i], i, inner, classes, way_out);
      out[i] = static_cast<int32_t>(in[i]);
      if (T(out[i]) != in[i]) refuse(in[i], i, inner, classes, way_out);
      ++valid_;
    }
  });
}

void Labels::read_on_device(const Layer& layer, const Tensor& labels, int64_t classes,
                            std::optional<int> ignore, std::optional<int> background,
                            const DeviceCheck::Explain& explain) {
  if (check_ == nullptr)
    check_ = std::make_unique<DeviceCheck>(layer.context().device_run(), layer, explain);
  on_device_ = true;
  counts_on_device_ = ignore.has_value();
  classes_.reshape(labels.shape());
  read_device_labels(ComputeDevice(layer.context().backend()), *check_, labels,
                     {classes, ignore, background}, classes_,
                     counts_on_device_ ? &device_valid_ : nullptr);
}

int64_t Labels::valid(int64_t positions) const {
  if (counts_on_device_) return static_cast<int64_t>(device_valid_.read<double>()[0]);
  return on_device_ ? positions : valid_;
}

LossNormalization::LossNormalization(const LayerParameter& param, Mode mode) : mode_(mode) {
  const LossParameter& settings = param.loss_param();
  if (!settings.has_normalization()) {
    if (settings.has_normalize()) mode_ = settings.normalize() ? Mode::valid : Mode::batch_size;
    return;
  }
  switch (settings.normalization()) {
    case LossParameter::FULL:
      mode_ = Mode::full;
      break;
    case LossParameter::VALID:
      mode_ = Mode::valid;
      break;
    case LossParameter::BATCH_SIZE:
      mode_ = Mode::batch_size;
      break;
    case LossParameter::NONE:
      mode_ = Mode::none;
      break;
    case LossParameter::PRE_FIXED:
      mode_ = Mode::fixed;
      fixed_ = settings.pre_fixed_normalizer();
      if (!(fixed_ > 0 && std::isfinite(fixed_)))
        throw Error("pre_fixed_normalizer ", fixed_,
                    " is no positive number; give what the loss is divided by");
      break;
  }
}

double LossNormalization::divisor(int64_t outer, int64_t inner, int64_t valid) const {
  double divisor = 1;
  switch (mode_) {
    case Mode::full:
      divisor = static_cast<double>(outer) * static_cast<double>(inner);
      break;
    case Mode::valid:
      divisor = static_cast<double>(valid);
      break;
    case Mode::batch_size:
      divisor = static_cast<double>(outer);
      break;
    case Mode::none:
      break;
    case Mode::fixed:
      return fixed_;
  }
  return std::max(divisor, 1.0);
}

MeanUnits LossNormalization::units(int64_t outer, int64_t inner, int64_t valid) const {
  if (mode_ == Mode::none || mode_ == Mode::fixed) return {.is_sum = true};
  // A loss without a valid label may still have a sum: that of priors where there is no box.
  const double by = divisor(outer, inner, valid);
  return {.count = mode_ == Mode::valid ? static_cast<double>(valid) : by, .divisor = by};
}

void LabelledLayer::reshape_scores(Blobs bottom) {
  const Shape &scores = bottom[0]->shape(), &labels = bottom[1]->shape();
  scores_ = AxisSplit(scores, axis_);
  if (scores_.size <= 0)
    throw Error("axis ", axis_, " of '", bottom[0]->name, "' (", scores.str(),
                ") is empty; it has to hold one score for each class");
  const bool distributions = labels.rank() == 2 && labels[0] == scores_.outer &&
                             scores_.inner == 1 && labels[1] > 1 && labels[1] != scores_.size;
  if (scores_.positions() != labels.count())
    throw Error("'", bottom[0]->name, "' (", scores.str(), ") has ", scores_.positions(),
                " positions beside its class axis ", scores.canonical_axis(axis_), ", but '",
                bottom[1]->name, "' (", labels.str(), ") has ", labels.count(),
                " labels; give one label for each position",
                distributions ? text(", or, if these are distributions (num_labels: ", labels[1],
                                     "), scores of as many classes: num_output: ", labels[1])
                              : "");
  check_in_step(*bottom[0], without_axis(scores, axis_), *bottom[1]);
}

bool LabelledLayer::reshape_probabilities(Blobs bottom) {
  const Shape& scores = bottom[0]->shape();
  if (bottom[1]->shape() != scores || scores.rank() == 0) return false;
  const AxisSplit split(scores, axis_);
  if (split.size < 2) return false;
  scores_ = split;
  return true;
}

void LabelledLayer::reshape_items(Blobs bottom) {
  const Shape &scores = bottom[0]->shape(), &labels = bottom[1]->shape();
  if (scores.rank() == 0)
    throw Error("'", bottom[0]->name, "' has no axes; its first one counts the items");
  scores_ = {};
  scores_.outer = scores[0];
  scores_.size = scores.count(1);
  if (scores_.size <= 0)
    throw Error("'", bottom[0]->name, "' (", scores.str(),
                ") is empty; each item has to hold one score for each class");
  if (labels.count() != scores_.outer)
    throw Error("'", bottom[0]->name, "' (", scores.str(), ") has ", scores_.outer, " items, but '",
                bottom[1]->name, "' (", labels.str(), ") has ", labels.count(),
                " labels; give one label for each item");
}

std::optional<int> ignored_label(const LayerParameter& param) {
  if (!param.loss_param().has_ignore_label()) return std::nullopt;
  return param.loss_param().ignore_label();
}

const int32_t* LabelledLayer::read_labels(const ComputeDevice& device, Blobs bottom,
                                          std::optional<int> background) {
  // A device of its own, as in tests of layers, has no run to report to.
  if (device.on_host() || !context().on_gpu()) {
    labels_.read(bottom[1]->data, scores_.inner, scores_.size, ignored_, {}, background);
  } else {
    labels_.read_on_device(*this, bottom[1]->data, scores_.size, ignored_, background,
                           [this](int64_t index, double label) {
                             Labels::refuse(label, index, scores_.inner, scores_.size);
                           });
  }
  return labels(device);
}

double label_smoothing(const LayerParameter& param) {
  const auto smoothing = static_cast<double>(param.loss_param().label_smoothing());
  if (!(smoothing >= 0 && smoothing < 1))
    throw Error("label_smoothing ", smoothing,
                " is outside [0, 1); give the share of the target that all classes get");
  return smoothing;
}

void check_probabilities(const AxisSplit& split, const Tensor& values, bool distributions) {
  const int64_t blocks = (split.positions() + kBlock - 1) / kBlock;
  dispatch_float(values.dtype(), [&]<class T>(T) {
    const T* const given = values.read<T>();
    parallel_for(blocks, kCheckGrain / (kBlock * std::max<int64_t>(split.size, 1)),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t block = begin; block < end; ++block) {
                     const int64_t first = block * kBlock;
                     check_block(split, first, std::min(first + kBlock, split.positions()), given,
                                 distributions);
                   }
                 });
  });
}

void check_loss_settings(const LayerInit& init, const LossReads& reads) {
  const LossParameter& settings = init.param.loss_param();
  const std::string& type = init.param.type();
  if (settings.label_smoothing() != 0 && !reads.label_smoothing)
    throw Error("label_smoothing ", settings.label_smoothing(),
                " is a setting of SoftmaxWithLoss and FocalLoss; ", type, " has none: remove it");
  const auto warn = [&](bool without_effect, const char* what) {
    if (without_effect)
      init.context.log(Severity::warning, text("layer '", init.param.name(), "': ", what));
  };
  warn(!reads.class_weights &&
           (settings.weight_by_label_freqs() || settings.class_weighting_size() > 0),
       text("class_weighting and weight_by_label_freqs have no effect on ", type).c_str());
  warn(!reads.ignore_label && settings.has_ignore_label(),
       text("ignore_label has no effect on ", type).c_str());
  warn(settings.has_pre_fixed_normalizer() && settings.normalization() != LossParameter::PRE_FIXED,
       "pre_fixed_normalizer has no effect without normalization: PRE_FIXED");
  warn(settings.has_normalize() && settings.has_normalization(),
       "normalize has no effect beside normalization, which takes its place");
}

LabelLoss::LabelLoss(const LayerInit& init, int axis, const LossReads& reads)
    : LabelledLayer(init, axis, ignored_label(init.param)), normalization_(init.param) {
  check_loss_settings(init, reads);
}

LossDivisor LabelLoss::device_divisor(const ComputeDevice& device) const {
  const Tensor* const valid = device_valid_labels();
  if (valid == nullptr) return {divisor()};
  if (normalization_.mode() != LossNormalization::Mode::valid)
    return {divisor(scores().positions())};
  return {.count = device.read<double>(*valid)};
}

}  // namespace crema
