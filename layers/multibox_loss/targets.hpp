// What the priors of a batch should learn, found on the host: true boxes are matched with priors,
// examples are mined, and labels, targets and differences of locations are written for the passes
// over them (multibox_passes.hpp). Images run on threads; the results do not depend on their
// number.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "crema/layer.hpp"
#include "layer_support/matching.hpp"
#include "layers/multibox_loss/index_list.hpp"
#include "layers/multibox_loss/location_math.hpp"
#include "layers/multibox_loss/mining.hpp"
#include "layers/multibox_loss/settings.hpp"
#include "layers/multibox_loss/truths.hpp"

namespace crema {

/// Values on the host.
template <class T>
struct TargetInput {
  const T *locations, *priors, *variances;
  const T* scores = nullptr;        // where losses of examples are computed or estimated
  const double* log_sum = nullptr;  // of the exponentials of scores: softmax and hard examples
  const T* loss = nullptr;       // of a prior without a match: softmax and negatives, not estimated
  double* log_sum_to = nullptr;  // null unless losses are estimated
};

/// Of all positions, which are the priors of all images.
template <class T>
struct TargetOutput {
  int32_t* labels;
  int64_t* counted;  // positions with a label, rising
  T* targets;        // (positions, classes), for logistic losses; else null
};

template <class T>
class TargetFinder {
 public:
  explicit TargetFinder(const MultiBoxSettings& settings) : settings_(settings) {}

  /// Takes memory for batches of this size.
  void prepare(int64_t images, int64_t priors);

  /// Finds the targets of a batch. Labels are -1 for no loss; targets are -1 in such positions.
  /// Where losses are estimated, writes log_sum_to of the positions that count, and of a few more.
  /// Error if priors (bottom 2) or true boxes (bottom 3) are wrong.
  void find(Blobs bottom, const TargetInput<T>& values, const TargetOutput<T>& to);

  // Of the last batch:

  /// The number of positions with a label.
  int64_t counted() const { return count_; }
  /// The number of matched locations.
  int64_t pairs() const { return first_pair_.back(); }
  /// Of each matched location: its place among those of the batch; for each of its values, what it
  /// differs from the encoded true box, and its factor in that.
  void write_pairs(const TargetInput<T>& values, int64_t* places, double* difference,
                   double* factor);

 private:
  struct OfThread {
    BoxMatcher<T> matcher;
    BoxColumns<T> predicted, around_predicted;  // and edges around runs of them
    std::vector<BoundingBox<T>> boxes;          // of one class
    std::vector<int32_t> numbers, matches;
    std::vector<T> losses;  // of the priors of an image
    std::vector<T> rows;    // of scores
    std::vector<int64_t> positions;
    IndexList list;
    Miner<T> miner;
  };
  /// A predicted location less the encoded true box, and the factor of the prediction in it.
  struct Difference {
    std::array<double, kEdges> value, factor;
  };

  std::span<int32_t> matches(int64_t image, int64_t location) {
    return std::span(matches_).subspan(
        static_cast<size_t>((image * settings_.locations + location) * priors_),
        static_cast<size_t>(priors_));
  }

  /// Writes the logarithms of the sums of exponentials of these positions.
  void find_sums(std::span<const int64_t> positions, const TargetInput<T>& values,
                 OfThread& scratch) const;
  OfThread& scratch_of_thread();
  void read_priors(const Blob& blob, const TargetInput<T>& values);
  int64_t place(int64_t image, int64_t location, int64_t prior) const;
  /// The predicted box of a prior.
  BoundingBox<T> predicted(int64_t image, int64_t location, int64_t prior,
                           const TargetInput<T>& values) const;
  void match(int64_t image, const TargetInput<T>& values, OfThread& scratch);
  /// Matches predicted boxes with the true boxes of their class, or with all if they have none.
  void match_predicted(int64_t image, int64_t location, const TargetInput<T>& values,
                       OfThread& scratch, T* overlaps);
  void mine_image(int64_t image, const TargetInput<T>& values, OfThread& scratch);
  void mine_by_estimates(int64_t image, const TargetInput<T>& values, const T* overlaps,
                         OfThread& scratch);
  /// The loss of the scores of one position; label `classes`: none of them.
  double score_loss(int64_t position, int64_t label, const TargetInput<T>& values) const;
  /// Writes the label of each prior of an image; -1 for no loss. Of a prior matched in several
  /// classes, it is the last. Returns the number of matches.
  int64_t write_labels(int64_t image, OfThread& scratch, int32_t* to);
  /// Writes the positions with a label, of those of an image that begin with `first`. Returns their
  /// number.
  int64_t list_counted(const int32_t* labels, int64_t first, OfThread& scratch, int64_t* to) const;
  /// Logistic targets from labels: 1 for the classes of a prior. Negatives are of the background
  /// class if examples are mined, else of none.
  void write_targets(int64_t image, const int32_t* labels, T* to);
  /// body(location, prior, number of the true box) for all matches of an image.
  template <class Body>
  void for_each_pair(int64_t image, OfThread& scratch, const Body& body);
  Difference difference_of(int64_t image, int64_t location, int64_t prior, int32_t truth,
                           const TargetInput<T>& values) const;

  const MultiBoxSettings& settings_;
  int64_t images_ = 0, priors_ = 0;
  Truths<T> truths_;
  BoxColumns<T> prior_boxes_, around_priors_;  // and edges around runs of them
  std::vector<T> checked_;                     // values of bottom 2 that these were made from
  std::vector<int32_t> matches_;  // (images, locations, priors); see BoxMatcher and mining.hpp
  std::vector<T> overlaps_;       // the same
  std::vector<T> one_hot_;        // (classes + 1, classes); the last row is 0
  std::vector<int64_t> first_pair_ = {0};  // of each image
  std::vector<int64_t> counts_of_;         // positions of each image with a label
  int64_t count_ = 0;
  std::vector<OfThread> threads_;
};

}  // namespace crema
