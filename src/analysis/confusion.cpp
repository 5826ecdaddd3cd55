#include "analysis/confusion.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/axis_split.hpp"
#include "core/dispatch.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// 10,000 classes have 800 MB of counts.
constexpr int64_t kMostPairedClasses = 10000;

ScoredLabels read_by(const LayerParameter& layer) {
  ScoredLabels found{layer.bottom(0), layer.bottom(1), layer.name()};
  if (layer.type() == "Accuracy") {
    const AccuracyParameter& settings = layer.accuracy_param();
    found.axis = settings.axis();
    if (settings.has_ignore_label()) found.ignore_label = settings.ignore_label();
  } else {
    found.axis = layer.softmax_param().axis();
    if (layer.loss_param().has_ignore_label()) {
      found.ignore_label = layer.loss_param().ignore_label();
    }
  }
  return found;
}

std::optional<double> share(int64_t part, int64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(all);
}

/// The class of the greatest score of a position, among equal ones the first that is not the label;
/// -1 if all are NaN.
int64_t best_class(const Tensor& scores, const AxisSplit& split, int64_t position, int64_t label) {
  int64_t best = -1;
  dispatch_float(scores.dtype(), [&]<class T>(T highest) {
    const T* of_position = scores.read<T>() + split.at(position);
    for (int64_t c = 0; c < split.size; ++c) {
      const T score = of_position[c * split.inner];
      if (score != score) continue;
      if (best >= 0 && (score < highest || (score == highest && best != label))) continue;
      best = c;
      highest = score;
    }
  });
  return best;
}

/// How many classes go before the label of a position. None where its score is NaN.
std::optional<int64_t> rank_of(const Tensor& scores, const AxisSplit& split, int64_t position,
                               int64_t label) {
  std::optional<int64_t> rank;
  dispatch_float(scores.dtype(), [&]<class T>(T) {
    const T* of_position = scores.read<T>() + split.at(position);
    const T own = of_position[label * split.inner];
    if (own != own) return;
    int64_t before = 0;
    for (int64_t c = 0; c < split.size; ++c) {
      before += c != label && of_position[c * split.inner] >= own ? 1 : 0;
    }
    rank = before;
  });
  return rank;
}

/// The classes of the scores and their positions. Error unless each position has a label.
AxisSplit split_of(const Tensor& scores, const Tensor& labels, const ScoredLabels& of) {
  const Shape& shape = scores.shape();
  if (shape.rank() == 0) throw Error("scores '", of.scores, "' are a scalar, without classes");
  const AxisSplit split(shape, shape.canonical_axis(of.axis));
  if (labels.count() != split.positions())
    throw Error("scores '", of.scores, "' (", shape.str(), ") are of ", split.positions(),
                " positions, labels '", of.labels, "' (", labels.shape().str(), ") of ",
                labels.count(), "; the class axis of the scores is ", of.axis);
  return split;
}

/// Whether the positions of a sample lie together: the first axis is that of the samples, or has
/// several rows of each, as in (N * T, C).
bool has_samples_in_order(const Tensor& scores, const Tensor& labels, int axis, int64_t samples) {
  const Shape &shape = scores.shape(), &of_labels = labels.shape();
  const int classes = shape.canonical_axis(axis);
  if (classes == 0) return false;
  if (shape[0] == samples) return true;
  // (T, N, C) has the samples along its second axis.
  const bool later = classes > 1 && shape[1] == samples;
  return !later && shape[0] % samples == 0 && of_labels.rank() > 0 && of_labels[0] == shape[0];
}

template <class Of>
std::optional<double> mean_over(int64_t classes, const Of& of) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const std::optional<double> value = of(c);
    if (!value) continue;
    sum += *value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace

std::vector<ScoredLabels> find_scored_labels(const NetParameter& net, const NetOptions& options) {
  const NetParameter included = layers_of(net, options);
  const auto& layers = included.layer();
  std::vector<ScoredLabels> found;
  for (const char* type : {"Accuracy", "SoftmaxWithLoss"}) {
    for (int i = 0; i < layers.size(); ++i) {
      const LayerParameter& layer = layers[i];
      if (layer.type() != type || layer.bottom_size() < 2) continue;
      const ScoredLabels pair = read_by(layer);
      const auto is_same = [&](const ScoredLabels& other) {
        return other.scores == pair.scores && other.labels == pair.labels;
      };
      if (std::ranges::any_of(found, is_same)) continue;
      for (int j = i + 1; j < layers.size(); ++j) {
        if (std::ranges::find(layers[j].top(), pair.scores) == layers[j].top().end()) continue;
        throw Error("the scores '", pair.scores, "' of layer '", layer.name(),
                    "' are not there after a pass: layer '", layers[j].name(),
                    "' changes them in place; give its top another name");
      }
      found.push_back(pair);
    }
    if (!found.empty()) break;
  }
  return found;
}

void ConfusionMatrix::add(const Tensor& scores, const Tensor& labels, const ScoredLabels& of,
                          const std::vector<bool>& left_out) {
  const Shape& shape = scores.shape();
  const AxisSplit split = split_of(scores, labels, of);
  if (classes_ == 0) {
    classes_ = split.size;
    if (has_pairs_ && classes_ > kMostPairedClasses) {
      const int64_t given = std::exchange(classes_, 0);
      throw Error("scores '", of.scores, "' (", shape.str(), ") have ", given,
                  " classes; which of them is taken for which is counted for up to ",
                  kMostPairedClasses);
    }
    if (has_pairs_) counts_.resize(static_cast<size_t>(classes_ * classes_));
    for (auto* sums : {&labelled_, &predicted_, &right_})
      sums->resize(static_cast<size_t>(classes_));
  }
  if (split.size != classes_)
    throw Error("scores '", of.scores, "' (", shape.str(), ") have ", split.size,
                " classes, those of earlier batches had ", classes_);
  const auto samples = static_cast<int64_t>(left_out.size());
  const bool leaves_out = samples > 0 && has_samples_in_order(scores, labels, of.axis, samples);
  if (!leaves_out) unknown_samples_ += std::ranges::count(left_out, true);
  const int64_t each = leaves_out ? split.positions() / samples : 1;
  for (int64_t i = 0; i < split.positions(); ++i) {
    if (leaves_out && left_out[static_cast<size_t>(i / each)]) continue;
    const double value = labels.at(i);
    if (of.ignore_label && value == *of.ignore_label) {
      ++ignored_;
      continue;
    }
    if (!(value >= 0 && value < static_cast<double>(classes_)) || value != std::floor(value))
      throw Error("label ", value, " at position ", i, " of '", of.labels,
                  "' is no whole number in [0, ", classes_, ")");
    const auto label = static_cast<int64_t>(value);
    ++positions_;
    ++labelled_[static_cast<size_t>(label)];
    const int64_t best = best_class(scores, split, i, label);
    if (best < 0) {
      ++undecided_;
      continue;
    }
    ++predicted_[static_cast<size_t>(best)];
    if (best == label) ++right_[static_cast<size_t>(label)];
    if (classes_ >= kTopClasses) {
      const std::optional<int64_t> rank = rank_of(scores, split, i, label);
      in_top_ += rank && *rank < kTop ? 1 : 0;
    }
    if (has_pairs_) ++counts_[static_cast<size_t>(label * classes_ + best)];
  }
}

std::vector<Prediction> predictions(const Tensor& scores, const Tensor& labels,
                                    const ScoredLabels& of) {
  const AxisSplit split = split_of(scores, labels, of);
  std::vector<Prediction> all;
  for (int64_t i = 0; i < split.positions(); ++i) {
    const double label = labels.at(i);
    const bool is_class = label >= 0 && label < static_cast<double>(split.size);
    const int64_t best = best_class(scores, split, i, is_class ? static_cast<int64_t>(label) : -1);
    all.push_back({best, best < 0 ? 0 : scores.at(split.at(i) + best * split.inner)});
  }
  return all;
}

int64_t ConfusionMatrix::labelled(int64_t label) const {
  return labelled_[static_cast<size_t>(label)];
}

int64_t ConfusionMatrix::predicted(int64_t prediction) const {
  return predicted_[static_cast<size_t>(prediction)];
}

std::optional<double> ConfusionMatrix::accuracy() const {
  return share(std::accumulate(right_.begin(), right_.end(), int64_t{0}), positions_);
}

std::optional<double> ConfusionMatrix::accuracy(int64_t label) const {
  return share(right_[static_cast<size_t>(label)], labelled(label));
}

std::optional<double> ConfusionMatrix::top_k() const {
  if (classes_ < kTopClasses) return std::nullopt;
  return share(in_top_, positions_);
}

std::optional<double> ConfusionMatrix::precision(int64_t label) const {
  return share(right_[static_cast<size_t>(label)], predicted(label));
}

std::optional<double> ConfusionMatrix::f1(int64_t label) const {
  return share(2 * right_[static_cast<size_t>(label)], labelled(label) + predicted(label));
}

std::optional<double> ConfusionMatrix::iou(int64_t label) const {
  const int64_t right = right_[static_cast<size_t>(label)];
  return share(right, labelled(label) + predicted(label) - right);
}

std::optional<double> ConfusionMatrix::mean_accuracy() const {
  return mean_over(classes_, [this](int64_t c) { return accuracy(c); });
}

std::optional<double> ConfusionMatrix::mean_precision() const {
  return mean_over(classes_, [this](int64_t c) { return precision(c); });
}

std::optional<double> ConfusionMatrix::mean_f1() const {
  return mean_over(classes_, [this](int64_t c) { return f1(c); });
}

std::optional<double> ConfusionMatrix::mean_iou() const {
  return mean_over(classes_, [this](int64_t c) { return iou(c); });
}

}  // namespace crema
