// How often each class was taken for each other: counts over the class scores and labels of a net.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// Two blobs of a net: scores, (N, C, ...) with the classes along `axis`, and labels, one a
/// position in the order of the scores without that axis.
struct ScoredLabels {
  std::string scores, labels;
  std::string layer = {};  // that reads them
  int axis = 1;
  std::optional<int> ignore_label = {};  // positions of this label do not count
};

/// What the Accuracy layers of the net read; if it has none, what its SoftmaxWithLoss layers read.
/// Each pair once, in the order of the layers. Only layers that `options` includes count. Error if
/// a layer behind changes the scores in place, so that they are not there after a pass.
std::vector<ScoredLabels> find_scored_labels(const NetParameter& net, const NetOptions& options);

class ConfusionMatrix {
 public:
  /// Without `pairs` only sums of each class are kept, and not how often which was taken for which.
  explicit ConfusionMatrix(bool pairs = true) : has_pairs_(pairs) {}

  /// Adds all positions of a batch but those of the samples for which `left_out`, empty or one a
  /// sample, is true. The samples lie along the first axis of the scores, or of it and of that of
  /// the labels each has as many rows; where neither is so, all count: see unknown_samples(). The
  /// prediction is the class of the greatest score; if several have it, the first that is not the
  /// label, so that such a position is no hit, as in Accuracy. Where all scores are NaN, there is
  /// none. Error if the shapes do not fit each other or those of earlier batches, and for a label
  /// that is no whole number in [0, classes). With pairs, Error for more than 10,000 classes, whose
  /// counts would take much memory.
  void add(const Tensor& scores, const Tensor& labels, const ScoredLabels& of,
           const std::vector<bool>& left_out = {});

  int64_t classes() const { return classes_; }
  bool has_pairs() const { return has_pairs_; }
  /// Positions of class `label` that were taken for `prediction`. Needs pairs.
  int64_t count(int64_t label, int64_t prediction) const {
    return counts_[static_cast<size_t>(label * classes_ + prediction)];
  }
  int64_t labelled(int64_t label) const;        // positions of the class
  int64_t predicted(int64_t prediction) const;  // positions taken for the class
  int64_t positions() const { return positions_; }
  /// Samples that count though they were to be left out.
  int64_t unknown_samples() const { return unknown_samples_; }
  int64_t ignored() const { return ignored_; }
  int64_t undecided() const { return undecided_; }  // without a prediction; they count as misses

  /// From this many classes on top_k() is counted.
  static constexpr int64_t kTopClasses = 10;
  static constexpr int64_t kTop = 5;
  /// Share of all positions whose label is among the kTop classes of the greatest scores; a class
  /// of an equal score goes before it, as in Accuracy. None with fewer classes than kTopClasses.
  std::optional<double> top_k() const;

  /// Share of all positions, or of those of a class, that are right. None without positions.
  std::optional<double> accuracy() const;
  std::optional<double> accuracy(int64_t label) const;
  /// Share of the positions taken for a class that are right. None without such positions. The
  /// accuracy of a class is its recall.
  std::optional<double> precision(int64_t label) const;
  /// 2 precision recall / (precision + recall): right positions of a class, divided by the mean
  /// number of those that are labelled and predicted as it. None without such positions.
  std::optional<double> f1(int64_t label) const;
  /// Right positions of a class, divided by those that are labelled or predicted as it. None
  /// without such positions.
  std::optional<double> iou(int64_t label) const;
  /// Means over the classes that have one.
  std::optional<double> mean_accuracy() const;
  std::optional<double> mean_precision() const;
  std::optional<double> mean_f1() const;
  std::optional<double> mean_iou() const;

 private:
  bool has_pairs_;
  int64_t classes_ = 0;
  std::vector<int64_t> counts_;  // (classes, classes): label, prediction; empty without pairs
  // (classes) each: positions of the class (without a prediction too), taken for it, and both.
  std::vector<int64_t> labelled_, predicted_, right_;
  int64_t positions_ = 0, ignored_ = 0, undecided_ = 0, unknown_samples_ = 0;
  int64_t in_top_ = 0;
};

/// What a position of scores is taken for, as ConfusionMatrix has it.
struct Prediction {
  int64_t best = -1;  // the class; -1 where all scores are NaN
  double score = 0;   // of it
};
/// Of each position in order; `labels` decide between equal scores. Error if the shapes do not fit.
std::vector<Prediction> predictions(const Tensor& scores, const Tensor& labels,
                                    const ScoredLabels& of);

}  // namespace crema
