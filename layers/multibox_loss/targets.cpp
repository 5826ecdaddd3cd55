#include "layers/multibox_loss/targets.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/error.hpp"
#include "layers/multibox_loss/score_kernels.hpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_passes.hpp"

namespace crema {
namespace {

/// Labels of priors without a true box: those that count are background.
[[gnu::always_inline]] inline void label_unmatched(int64_t count, const int32_t* matches,
                                                   bool mined, int32_t background,
                                                   int32_t* labels) {
#pragma omp simd
  for (int64_t p = 0; p < count; ++p) {
    const int32_t match = matches[p];
    const bool counts = (match == kNegative) | (!mined & (match != kDifficult));
    labels[p] = counts ? background : -1;
  }
}

}  // namespace

template <class T>
void TargetFinder<T>::prepare(int64_t images, int64_t priors) {
  images_ = images;
  priors_ = priors;
  matches_.resize(static_cast<size_t>(images * settings_.locations * priors));
  const auto classes = static_cast<size_t>(settings_.classes);
  one_hot_.assign((classes + 1) * classes, T{0});
  for (size_t c = 0; c < classes; ++c) one_hot_[c * classes + c] = 1;
}

template <class T>
void TargetFinder<T>::find(Blobs bottom, const TargetInput<T>& values, const TargetOutput<T>& to) {
  overlaps_.resize(matches_.size());
  const auto threads = static_cast<size_t>(omp_get_max_threads());
  if (threads_.size() < threads) threads_.resize(threads);
  read_priors(*bottom[2], values);
  truths_.read(settings_, *bottom[3], images_);
  first_pair_.assign(static_cast<size_t>(images_) + 1, 0);
  counts_of_.resize(static_cast<size_t>(images_));
  parallel_for(images_, 1, [&](int64_t begin, int64_t end) {
    auto& scratch = scratch_of_thread();
    for (int64_t image = begin; image < end; ++image) {
      match(image, values, scratch);
      if (settings_.mines() && !truths_.boxes(image).empty()) mine_image(image, values, scratch);
      first_pair_[static_cast<size_t>(image) + 1] =
          write_labels(image, scratch, to.labels + image * priors_);
      if (to.targets)
        write_targets(image, to.labels + image * priors_,
                      to.targets + image * priors_ * settings_.classes);
      int64_t* const own = to.counted + image * priors_;
      const int64_t count = list_counted(to.labels, image * priors_, scratch, own);
      counts_of_[static_cast<size_t>(image)] = count;
      if (values.log_sum_to) find_sums(std::span(own, static_cast<size_t>(count)), values, scratch);
    }
  });
  count_ = 0;
  for (int64_t image = 0; image < images_; ++image) {
    const int64_t* const own = to.counted + image * priors_;
    count_ =
        std::copy_n(own, counts_of_[static_cast<size_t>(image)], to.counted + count_) - to.counted;
  }
  for (size_t i = 1; i < first_pair_.size(); ++i) first_pair_[i] += first_pair_[i - 1];
}

template <class T>
void TargetFinder<T>::write_pairs(const TargetInput<T>& values, int64_t* places, double* difference,
                                  double* factor) {
  parallel_for(images_, 1, [&](int64_t begin, int64_t end) {
    auto& scratch = scratch_of_thread();
    for (int64_t image = begin; image < end; ++image) {
      int64_t pair = first_pair_[static_cast<size_t>(image)];
      for_each_pair(image, scratch, [&](int64_t location, int64_t prior, int32_t truth) {
        const Difference d = difference_of(image, location, prior, truth, values);
        std::copy(d.value.begin(), d.value.end(), difference + kEdges * pair);
        std::copy(d.factor.begin(), d.factor.end(), factor + kEdges * pair);
        places[pair++] = place(image, location, prior);
      });
    }
  });
}

template <class T>
void TargetFinder<T>::find_sums(std::span<const int64_t> positions, const TargetInput<T>& values,
                                OfThread& scratch) const {
  if constexpr (std::is_same_v<T, float>) {
    log_sums_of(positions, settings_.classes, values.scores, scratch.rows, values.log_sum_to);
  }
}

template <class T>
auto TargetFinder<T>::scratch_of_thread() -> OfThread& {
  // One piece only where another team runs this.
  return threads_[static_cast<size_t>(thread_number()) % threads_.size()];
}

template <class T>
void TargetFinder<T>::read_priors(const Blob& blob, const TargetInput<T>& values) {
  // They are mostly those of the last batch.
  const std::span given(values.priors, static_cast<size_t>(2 * kEdges * priors_));
  if (given.size() == checked_.size() &&
      std::memcmp(given.data(), checked_.data(), given.size_bytes()) == 0)
    return;
  checked_.clear();
  check_priors(settings_.coder, blob.name, values.priors, values.variances, priors_);
  prior_boxes_.clear();
  for (int64_t p = 0; p < priors_; ++p) {
    prior_boxes_.add(BoundingBox<T>::load(values.priors + kEdges * p));
    for (int64_t k = kEdges * p; k < kEdges * (p + 1); ++k) {
      if (!(values.variances[k] > T{0}))
        throw Error("prior box ", p, " of '", blob.name, "' has the variance ", values.variances[k],
                    "; differences are divided by it");
    }
  }
  find_box_runs(prior_boxes_, around_priors_);
  checked_.assign(given.begin(), given.end());
}

template <class T>
int64_t TargetFinder<T>::place(int64_t image, int64_t location, int64_t prior) const {
  return (image * priors_ + prior) * settings_.locations + location;
}

template <class T>
BoundingBox<T> TargetFinder<T>::predicted(int64_t image, int64_t location, int64_t prior,
                                          const TargetInput<T>& values) const {
  return settings_.coder.decode(
      BoundingBox<T>::load(values.priors + kEdges * prior), values.variances + kEdges * prior,
      BoundingBox<T>::load(values.locations + kEdges * place(image, location, prior)));
}

template <class T>
void TargetFinder<T>::match(int64_t image, const TargetInput<T>& values, OfThread& scratch) {
  const auto truths = truths_.boxes(image);
  const auto labels = truths_.labels(image);
  T* const overlaps = overlaps_.data() + image * settings_.locations * priors_;
  if (settings_.by_priors) {
    const auto all = matches(image, 0);
    scratch.matcher.match(settings_.matching, prior_boxes_, around_priors_, truths, all.data(),
                          overlaps);
    if (settings_.locations > 1) {
      scratch.matches.assign(all.begin(), all.end());
      for (int64_t c = 0; c < settings_.locations; ++c) {
        const auto own = matches(image, c);
        for (size_t p = 0; p < own.size(); ++p) {
          const int32_t truth = scratch.matches[p];
          own[p] = truth >= 0 && labels[static_cast<size_t>(truth)] == c ? truth : kUnmatched;
        }
      }
    }
  } else {
    for (int64_t l = 0; l < settings_.locations; ++l) {
      match_predicted(image, l, values, scratch, overlaps + l * priors_);
    }
  }
  const auto ignored = truths_.ignored(image);
  for (int64_t l = 0; settings_.ignores_difficult && l < settings_.locations; ++l) {
    for (int32_t& m : matches(image, l)) {
      if (m >= 0 && ignored[static_cast<size_t>(m)] != 0) m = kDifficult;
    }
  }
}

template <class T>
void TargetFinder<T>::match_predicted(int64_t image, int64_t location, const TargetInput<T>& values,
                                      OfThread& scratch, T* overlaps) {
  const auto truths = truths_.boxes(image);
  const auto labels = truths_.labels(image);
  const auto found = matches(image, location);
  scratch.boxes.clear();
  scratch.numbers.clear();
  for (size_t t = 0; t < truths.size(); ++t) {
    if (settings_.locations > 1 && labels[t] != location) continue;
    scratch.boxes.push_back(truths[t]);
    scratch.numbers.push_back(static_cast<int32_t>(t));
  }
  if (scratch.boxes.empty()) {
    std::fill(found.begin(), found.end(), kUnmatched);
    return;
  }
  scratch.predicted.clear();
  for (int64_t p = 0; p < priors_; ++p) {
    const BoundingBox<T> box = predicted(image, location, p, values);
    if (!(box.xmin == box.xmin && box.ymin == box.ymin && box.xmax == box.xmax &&
          box.ymax == box.ymax))
      throw Error("the predicted box of prior ", p, " of image ", image,
                  " is no number, and boxes are matched with predicted ones "
                  "(use_prior_for_matching: false)")
          .of_sample(image);
    scratch.predicted.add(box);
  }
  find_box_runs(scratch.predicted, scratch.around_predicted);
  scratch.matcher.match(settings_.matching, scratch.predicted, scratch.around_predicted,
                        std::span<const BoundingBox<T>>(scratch.boxes), found.data(), overlaps);
  for (int32_t& m : found) {
    if (m >= 0) m = scratch.numbers[static_cast<size_t>(m)];
  }
}

template <class T>
void TargetFinder<T>::mine_image(int64_t image, const TargetInput<T>& values, OfThread& scratch) {
  const auto found = matches(image, 0);
  const T* const overlaps = overlaps_.data() + image * priors_;
  if (values.log_sum_to) return mine_by_estimates(image, values, overlaps, scratch);
  const auto labels = truths_.labels(image);
  const auto loss_of = [&](int64_t prior) {
    const int32_t truth = found[static_cast<size_t>(prior)];
    const int64_t label = truth >= 0 ? labels[static_cast<size_t>(truth)] : settings_.background;
    double loss = score_loss(image * priors_ + prior, label, values);
    if (truth < 0 || !settings_.hard()) return loss;
    const Difference d = difference_of(image, 0, prior, truth, values);
    for (const double value : d.value) loss += LocationMath{settings_.smooth_l1}.value(value);
    return loss;
  };
  const T* losses = values.loss;
  if (losses != nullptr) {
    losses += image * priors_;
  } else {
    scratch.losses.resize(found.size());
    for (size_t p = 0; p < found.size(); ++p) {
      scratch.losses[p] = static_cast<T>(loss_of(static_cast<int64_t>(p)));
    }
    losses = scratch.losses.data();
  }
  const auto box_of = [&](int64_t prior) {
    return settings_.suppresses_priors ? prior_boxes_[prior] : predicted(image, 0, prior, values);
  };
  scratch.miner.mine(settings_.mining, found, overlaps, losses, box_of);
}

template <class T>
void TargetFinder<T>::mine_by_estimates(int64_t image, const TargetInput<T>& values,
                                        const T* overlaps, OfThread& scratch) {
  if constexpr (std::is_same_v<T, float>) {
    const int64_t first = image * priors_, classes = settings_.classes;
    scratch.losses.resize(static_cast<size_t>(priors_));
    estimate_losses(first, first + priors_, classes, settings_.background, values.scores,
                    scratch.losses.data());
    const auto find_losses = [&](std::span<Candidate<T>> candidates) {
      scratch.positions.clear();
      for (const auto& candidate : candidates) scratch.positions.push_back(first + candidate.index);
      find_sums(scratch.positions, values, scratch);
      for (auto& candidate : candidates) {
        const int64_t p = first + candidate.index;
        const auto score = static_cast<double>(values.scores[p * classes + settings_.background]);
        candidate.score = static_cast<T>(values.log_sum_to[p] - score);
      }
    };
    scratch.miner.mine_estimated(settings_.mining, matches(image, 0), overlaps,
                                 scratch.losses.data(), find_losses);
  }
}

template <class T>
double TargetFinder<T>::score_loss(int64_t position, int64_t label,
                                   const TargetInput<T>& values) const {
  const T* const scores = values.scores + position * settings_.classes;
  if (settings_.softmax) return values.log_sum[position] - static_cast<double>(scores[label]);
  return CrossEntropyLoss<T>{scores, one_hot_.data() + label * settings_.classes, T{-1}}.on_host(
      0, settings_.classes);
}

template <class T>
int64_t TargetFinder<T>::write_labels(int64_t image, OfThread& scratch, int32_t* to) {
  const auto labels = truths_.labels(image);
  const int32_t background = static_cast<int32_t>(settings_.background);
  vectorized<label_unmatched>(priors_, static_cast<const int32_t*>(matches(image, 0).data()),
                              settings_.mines(), background, to);
  for (int64_t l = 1; settings_.ignores_difficult && l < settings_.locations; ++l) {
    const auto found = matches(image, l);
    for (size_t p = 0; p < found.size(); ++p) {
      if (found[p] == kDifficult && to[p] == background) to[p] = -1;
    }
  }
  int64_t pairs = 0;
  for_each_pair(image, scratch, [&](int64_t, int64_t prior, int32_t truth) {
    to[prior] = labels[static_cast<size_t>(truth)];
    ++pairs;
  });
  return pairs;
}

template <class T>
int64_t TargetFinder<T>::list_counted(const int32_t* labels, int64_t first, OfThread& scratch,
                                      int64_t* to) const {
  const std::span own(labels + first, static_cast<size_t>(priors_));
  const auto counted = scratch.list.find(own, 0, std::numeric_limits<int32_t>::max());
  std::transform(counted.begin(), counted.end(), to, [&](int32_t p) { return first + p; });
  return static_cast<int64_t>(counted.size());
}

template <class T>
void TargetFinder<T>::write_targets(int64_t image, const int32_t* labels, T* to) {
  const int64_t classes = settings_.classes;
  for (int64_t p = 0; p < priors_; ++p, to += classes) {
    std::fill_n(to, classes, labels[p] < 0 ? T{-1} : T{0});
    if (labels[p] < 0 || labels[p] == classes) continue;
    if (labels[p] != settings_.background || settings_.mines()) to[labels[p]] = 1;
    for (int64_t c = 0; settings_.locations > 1 && c < classes; ++c) {
      if (matches(image, c)[static_cast<size_t>(p)] >= 0) to[c] = 1;
    }
  }
}

template <class T>
template <class Body>
void TargetFinder<T>::for_each_pair(int64_t image, OfThread& scratch, const Body& body) {
  for (int64_t l = 0; l < settings_.locations; ++l) {
    const auto found = matches(image, l);
    for (const int32_t p : scratch.list.find(found, 0, std::numeric_limits<int32_t>::max()))
      body(l, p, found[static_cast<size_t>(p)]);
  }
}

template <class T>
auto TargetFinder<T>::difference_of(int64_t image, int64_t location, int64_t prior, int32_t truth,
                                    const TargetInput<T>& values) const -> Difference {
  const auto wide = [](const T* from) {
    return std::array<double, kEdges>{static_cast<double>(from[0]), static_cast<double>(from[1]),
                                      static_cast<double>(from[2]), static_cast<double>(from[3])};
  };
  const auto prior_box = wide(values.priors + kEdges * prior);
  const auto variance = wide(values.variances + kEdges * prior);
  const auto given = wide(values.locations + kEdges * place(image, location, prior));
  std::array<T, kEdges> edges;
  truths_.boxes(image)[static_cast<size_t>(truth)].store(edges.data());
  std::array<double, kEdges> target;
  settings_.coder
      .encode(BoundingBox<double>::load(prior_box.data()), variance.data(),
              BoundingBox<double>::load(wide(edges.data()).data()))
      .store(target.data());
  std::array<T, kEdges> matched;
  if (settings_.inside_only) {
    const BoundingBox<T> box = settings_.by_priors
                                   ? BoundingBox<T>::load(values.priors + kEdges * prior)
                                   : predicted(image, location, prior, values);
    box.store(matched.data());
  }
  Difference result{};
  for (size_t k = 0; k < kEdges; ++k) {
    if (settings_.inside_only && !(matched[k] >= T{0} && matched[k] <= T{1})) continue;
    result.factor[k] = settings_.coder.in_target ? 1 / variance[k] : 1;
    result.value[k] = result.factor[k] * (given[k] - target[k]);
  }
  return result;
}

template class TargetFinder<float>;
template class TargetFinder<double>;

}  // namespace crema
