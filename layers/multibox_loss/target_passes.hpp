// The passes of TargetsOnDevice. They follow TargetFinder, Miner and BoxMatcher, which say what the
// results are.
#pragma once

#include <cmath>
#include <limits>

#include "layer_support/block_choice.hpp"
#include "layer_support/detection_rows.hpp"
#include "layer_support/device_check.hpp"
#include "layer_support/rows_by_image.hpp"
#include "layers/multibox_loss/location_math.hpp"
#include "layers/multibox_loss/settings.hpp"
#include "layers/multibox_loss/targets_on_device.hpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_passes.hpp"

namespace crema {

/// The settings and memory that all passes share.
template <class T>
struct TargetProblem {
  // Settings.
  int64_t images, priors, classes, background, of_prior;  // locations of a prior
  int32_t object_label;  // of all true boxes; below 0: each has its own
  bool softmax, smooth_l1, by_priors, inside_only, uses_difficult, ignores_difficult;
  bool bipartite, leaves_out_crossing, mines, hard;
  double overlap_threshold, negative_overlap;
  float negatives_each;
  int64_t samples;
  BoxCoder coder;
  // Memory.
  TargetsThere<T> there;
  RowsByImage by_image;       // the true boxes
  int32_t* box_of_truth;      // (of_prior, rows): the free box that overlaps a true one most
  T* overlap_of_truth;        // the same
  BoundingBox<T>* predicted;  // (images, of_prior, priors); null where priors are matched
  int32_t *matches, *best;    // (images, of_prior, priors); see BoxMatcher and mining.hpp
  T *overlaps, *losses;       // the same; (images, priors): losses of examples
  double *location_loss, *slope, *matched;  // see LocationsThere; slope may be null

  CREMA_FUNCTOR int64_t at(int64_t image, int64_t location, int64_t prior) const {
    return (image * of_prior + location) * priors + prior;
  }
  CREMA_FUNCTOR int64_t place(int64_t image, int64_t location, int64_t prior) const {
    return (image * priors + prior) * of_prior + location;
  }
  CREMA_FUNCTOR int64_t truths_of(int64_t image) const { return by_image.count_of(image); }
  /// The values of true box t of an image.
  CREMA_FUNCTOR const T* truth(int64_t image, int64_t t) const {
    return there.truths + by_image.row(image, t) * kTruthRow;
  }
  CREMA_FUNCTOR int32_t label_of(const T* row) const {
    return object_label >= 0 ? object_label : static_cast<int32_t>(row[1]);
  }
  CREMA_FUNCTOR const T* variances(int64_t prior) const {
    return there.priors + kEdges * (priors + prior);
  }
  CREMA_FUNCTOR BoundingBox<T> prior_box(int64_t prior) const {
    return BoundingBox<T>::load(there.priors + kEdges * prior);
  }
  CREMA_FUNCTOR BoundingBox<T> predict(int64_t image, int64_t location, int64_t prior) const {
    return coder.decode(
        prior_box(prior), variances(prior),
        BoundingBox<T>::load(there.locations + kEdges * place(image, location, prior)));
  }
};

/// Row i of the true boxes: checks it, and finds its image.
template <class T>
struct ReadTruth {
  TargetProblem<T> p;
  NotesBad bad;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T* const row = p.there.truths + i * kTruthRow;
    const T image = row[0], label = row[1];
    p.by_image.images_of[i] = -1;
    if (image == T{-1}) return;
    if (!(image >= 0 && static_cast<double>(image) < static_cast<double>(p.images)) ||
        std::floor(image) != image)
      return bad(i * kTruthRow);
    const bool known = label >= 0 && (p.object_label >= 0 || label < static_cast<T>(p.classes));
    if (!known || std::floor(label) != label || label == static_cast<T>(p.background))
      return bad(i * kTruthRow + 1);
    for (int64_t k = 3; k < 7; ++k) {
      if (!(row[k] - row[k] == 0)) return bad(i * kTruthRow + k);
    }
    if (row[5] < row[3] || row[6] < row[4]) return bad(i * kTruthRow + 5);
    if (row[7] == T{0} || p.uses_difficult) p.by_image.images_of[i] = static_cast<int32_t>(image);
  }
};

/// Prior i: check_priors(), and that variances are above 0.
template <class T>
struct CheckPrior {
  TargetProblem<T> p;
  NotesBad bad;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T *const box = p.there.priors + kEdges * i, *const variance = p.variances(i);
    for (int64_t k = 0; k < kEdges; ++k) {
      if (!(box[k] - box[k] == 0)) return bad(kEdges * i + k);
      const bool finite = p.coder.in_target || variance[k] - variance[k] == 0;
      if (!finite || !(variance[k] > T{0})) return bad(kEdges * (p.priors + i) + k);
    }
    if (p.coder.code != BoxCode::corner && !(box[2] > box[0] && box[3] > box[1])) bad(kEdges * i);
  }
};

/// Box i of `predicted`.
template <class T>
struct PredictBox {
  TargetProblem<T> p;
  NotesBad bad;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t prior = i % p.priors, location = i / p.priors % p.of_prior;
    const int64_t image = i / p.priors / p.of_prior;
    const BoundingBox<T> box = p.predict(image, location, prior);
    p.predicted[i] = box;
    const bool is_number = box.xmin == box.xmin && box.ymin == box.ymin && box.xmax == box.xmax &&
                           box.ymax == box.ymax;
    if (!is_number && p.truths_of(image) > 0) bad(kEdges * p.place(image, location, prior));
  }
};

/// BoxMatcher on a block. Item: of an image; where predicted boxes are matched, of one of its
/// locations, with the true boxes of that class if there are several.
template <class T>
struct MatchBoxes {
  static constexpr double kLeastOverlap = 1e-6;
  TargetProblem<T> p;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const int64_t each = p.by_priors ? 1 : p.of_prior;
    const int64_t image = item / each, location = item % each, truths = p.truths_of(image);
    const int64_t own = p.at(image, location, 0),
                  of_truth = location * p.by_image.rows + p.by_image.first[image];
    const int32_t wanted = p.by_priors || p.of_prior == 1 ? -1 : static_cast<int32_t>(location);
    int32_t *const matches = p.matches + own, *const best = p.best + own;
    int32_t* const free_box = p.box_of_truth + of_truth;
    T *const most = p.overlaps + own, *const free_overlap = p.overlap_of_truth + of_truth;
    const auto takes_part = [&](int64_t t) {
      return wanted < 0 || p.label_of(p.truth(image, t)) == wanted;
    };
    const auto box_of = [&](int64_t i) {
      return p.by_priors ? p.prior_box(i) : p.predicted[own + i];
    };
    const auto share = [&](const BoundingBox<T>& box, int64_t t) {
      const auto truth = BoundingBox<T>::load(p.truth(image, t) + 3);
      return overlap(box, area(box), truth, (truth.xmax - truth.xmin) * (truth.ymax - truth.ymin));
    };
    bool any = p.by_priors;
    for (int64_t t = 0; t < truths && !any; ++t) any = takes_part(t);
    for (int64_t i = lanes.first; i < p.priors; i += lanes.count) {
      const BoundingBox<T> box = box_of(i);
      const bool outside = any && p.leaves_out_crossing && crosses_border(box);
      matches[i] = outside ? kOutside : kUnmatched;
      most[i] = T{0};
      best[i] = kUnmatched;
      for (int64_t t = 0; t < truths && any && !outside; ++t) {
        const T with = takes_part(t) ? share(box, t) : T{0};
        if (!(with > most[i])) continue;
        most[i] = with;
        best[i] = static_cast<int32_t>(t);
      }
    }
    lanes.wait();
    // The free box that overlaps a true one most, the lowest of equal ones.
    const auto find_free = [&](int64_t t) {
      T largest = static_cast<T>(kLeastOverlap);
      double box = -1;
      for (int64_t i = lanes.first; i < p.priors; i += lanes.count) {
        if (matches[i] != kUnmatched) continue;
        const T with = share(box_of(i), t);
        if (!(with > largest)) continue;
        largest = with;
        box = static_cast<double>(i);
      }
      const double all = lanes.max(static_cast<double>(largest));
      const bool mine = box >= 0 && static_cast<double>(largest) == all;
      const double lowest = -lanes.max(mine ? -box : -std::numeric_limits<double>::infinity());
      if (lanes.first != 0) return;
      const bool found = lowest < static_cast<double>(p.priors);
      free_box[t] = found ? static_cast<int32_t>(lowest) : -1;
      free_overlap[t] = static_cast<T>(all);
    };
    for (int64_t t = 0; t < truths; ++t) {
      if (takes_part(t)) {
        find_free(t);
      } else if (lanes.first == 0) {
        free_box[t] = -1;
      }
    }
    lanes.wait();
    // Each true box gets one: the pair that overlaps most first.
    for (;;) {
      int64_t taken = -1;
      for (int64_t t = 0; t < truths; ++t) {
        if (free_box[t] < 0) continue;
        if (taken < 0 || free_overlap[t] > free_overlap[taken] ||
            (free_overlap[t] == free_overlap[taken] && free_box[t] < free_box[taken]))
          taken = t;
      }
      if (taken < 0) break;
      const int32_t box = free_box[taken];
      const T with = free_overlap[taken];
      lanes.wait();  // everybody has read
      if (lanes.first == 0) {
        matches[box] = static_cast<int32_t>(taken);
        most[box] = with;
        free_box[taken] = -1;
      }
      lanes.wait();
      for (int64_t t = 0; t < truths; ++t) {
        if (free_box[t] == box) find_free(t);
      }
      lanes.wait();
    }
    // The others get the true box that they overlap most.
    const T threshold = p.bipartite ? T{2} : static_cast<T>(p.overlap_threshold);
    for (int64_t i = lanes.first; i < p.priors; i += lanes.count) {
      if (matches[i] != kUnmatched) continue;
      if (!(most[i] > static_cast<T>(kLeastOverlap))) most[i] = T{0};
      if (most[i] > T{0} && most[i] >= threshold) matches[i] = best[i];
    }
  }
};

/// Of position i: where priors have several locations, each gets the true boxes of its class; those
/// that are to be ignored are marked.
template <class T>
struct SortMatches {
  TargetProblem<T> p;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t image = i / p.priors, prior = i % p.priors;
    const int32_t all = p.matches[p.at(image, 0, prior)];
    for (int64_t l = 0; l < p.of_prior; ++l) {
      int32_t& match = p.matches[p.at(image, l, prior)];
      if (p.by_priors && p.of_prior > 1)
        match = all >= 0 && p.label_of(p.truth(image, all)) == l ? all : kUnmatched;
      if (p.ignores_difficult && match >= 0 && p.truth(image, match)[7] != T{0}) match = kDifficult;
    }
  }
};

/// A matched location less the encoded true box, and the factor of the prediction in it.
struct DifferenceThere {
  double value[kEdges], factor[kEdges];
};
template <class T>
CREMA_FUNCTOR DifferenceThere difference_there(const TargetProblem<T>& p, int64_t image,
                                               int64_t location, int64_t prior, int64_t t) {
  double prior_box[kEdges], variance[kEdges], truth[kEdges], target[kEdges];
  const T *const box = p.there.priors + kEdges * prior, *const own = p.variances(prior),
                 *const edges = p.truth(image, t) + 3,
                 *const given = p.there.locations + kEdges * p.place(image, location, prior);
  for (int k = 0; k < kEdges; ++k) {
    prior_box[k] = static_cast<double>(box[k]);
    variance[k] = static_cast<double>(own[k]);
    truth[k] = static_cast<double>(edges[k]);
  }
  p.coder.encode(BoundingBox<double>::load(prior_box), variance, BoundingBox<double>::load(truth))
      .store(target);
  T matched[kEdges] = {};
  if (p.inside_only)
    (p.by_priors ? p.prior_box(prior) : p.predict(image, location, prior)).store(matched);
  DifferenceThere result{};
  for (int k = 0; k < kEdges; ++k) {
    if (p.inside_only && !(matched[k] >= T{0} && matched[k] <= T{1})) continue;
    result.factor[k] = p.coder.in_target ? 1 / variance[k] : 1;
    result.value[k] = result.factor[k] * (static_cast<double>(given[k]) - target[k]);
  }
  return result;
}

/// The loss of position i that examples are chosen by.
template <class T>
struct ExampleLoss {
  TargetProblem<T> p;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t image = i / p.priors, prior = i % p.priors;
    const int32_t t = p.matches[p.at(image, 0, prior)];
    const int64_t label = t >= 0 ? p.label_of(p.truth(image, t)) : p.background;
    const T* const scores = p.there.scores + i * p.classes;
    double loss = 0;
    if (p.softmax) {
      loss = p.there.log_sum[i] - static_cast<double>(scores[label]);
    } else {
      for (int64_t c = 0; c < p.classes; ++c)
        loss +=
            static_cast<double>(cross_entropy_math::loss_of(scores[c], c == label ? T{1} : T{0}));
    }
    if (p.hard && t >= 0) {
      const DifferenceThere d = difference_there(p, image, 0, prior, t);
      for (const double value : d.value) loss += LocationMath{p.smooth_l1}.value(value);
    }
    p.losses[i] = static_cast<T>(loss);
  }
};

/// Item `image`: chooses its examples.
template <class T>
struct MineExamples {
  TargetProblem<T> p;
  const T* losses;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t image, const Lanes& lanes) const {
    if (p.truths_of(image) == 0) return;
    const int64_t own = p.at(image, 0, 0);
    int32_t *const matches = p.matches + own, *const chosen = p.best + own;
    const auto may_be = [&](int64_t i) {
      if (p.hard) return matches[i] >= kUnmatched;
      return matches[i] == kUnmatched && p.overlaps[own + i] < static_cast<T>(p.negative_overlap);
    };
    double positives = 0, eligible = 0;
    for (int64_t i = lanes.first; i < p.priors; i += lanes.count) {
      positives += matches[i] >= 0 ? 1 : 0;
      eligible += may_be(i) ? 1 : 0;
      chosen[i] = 0;
    }
    positives = lanes.sum(positives);
    eligible = lanes.sum(eligible);
    lanes.wait();
    const float wanted = static_cast<float>(positives) * p.negatives_each;
    const bool all = wanted >= static_cast<float>(eligible);
    const int64_t number = p.hard ? p.samples
                           : all  ? static_cast<int64_t>(eligible)
                                  : static_cast<int64_t>(wanted);
    // A loss that is NaN comes first.
    const auto key_of = [&](int64_t i) {
      if (!may_be(i)) return RisingKey<T>{0};
      const T loss = losses[image * p.priors + i];
      return rising_key(loss == loss ? loss : std::numeric_limits<T>::infinity());
    };
    const auto cut = find_cut<RisingKey<T>>(lanes, p.priors, number, key_of);
    take_cut(lanes, p.priors, cut, key_of, [&](int64_t i, int64_t) { chosen[i] = 1; });
    lanes.wait();
    for (int64_t i = lanes.first; i < p.priors; i += lanes.count) {
      if (chosen[i] != 0) {
        if (matches[i] == kUnmatched) matches[i] = kNegative;
      } else if (p.hard && matches[i] >= 0) {
        matches[i] = kUnmatched;
      }
    }
  }
};

/// Of position i: its label, and the losses of its locations.
template <class T>
struct WriteLabels {
  TargetProblem<T> p;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t image = i / p.priors, prior = i % p.priors;
    const auto background = static_cast<int32_t>(p.background);
    const int32_t first = p.matches[p.at(image, 0, prior)];
    const bool counts = first == kNegative || (!p.mines && first != kDifficult);
    int32_t label = counts ? background : -1;
    for (int64_t l = 1; l < p.of_prior; ++l) {
      if (p.matches[p.at(image, l, prior)] == kDifficult && label == background) label = -1;
    }
    for (int64_t l = 0; l < p.of_prior; ++l) {
      const int32_t t = p.matches[p.at(image, l, prior)];
      const int64_t place = p.place(image, l, prior);
      DifferenceThere d{};
      if (t >= 0) {
        label = p.label_of(p.truth(image, t));
        d = difference_there(p, image, l, prior, t);
      }
      const LocationMath math{p.smooth_l1};
      double loss = 0;
      for (int k = 0; k < kEdges; ++k) {
        loss += math.value(d.value[k]);
        if (p.slope) p.slope[kEdges * place + k] = d.factor[k] * math.slope(d.value[k]);
      }
      p.location_loss[place] = loss;
    }
    p.there.labels[i] = label;
  }
};

/// Target i: of position and class.
template <class T>
struct WriteTarget {
  TargetProblem<T> p;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t position = i / p.classes, c = i % p.classes;
    const int32_t label = p.there.labels[position];
    T target = label < 0 ? T{-1} : T{0};
    if (label >= 0 && label != p.classes) {
      if (label == c && (label != p.background || p.mines)) target = T{1};
      const int64_t image = position / p.priors, prior = position % p.priors;
      if (p.of_prior > 1 && p.matches[p.at(image, c, prior)] >= 0) target = T{1};
    }
    p.there.targets[i] = target;
  }
};

struct IsMatched {
  const int32_t* matches;
  CREMA_FUNCTOR double operator()(int64_t i) const { return matches[i] >= 0 ? 1 : 0; }
};

}  // namespace crema
