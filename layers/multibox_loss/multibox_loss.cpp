// MultiBoxLoss: matches prior boxes with true ones; location loss plus confidence loss. See
// README.md.
#include <array>
#include <cstring>
#include <limits>
#include <tuple>

#include "core/dispatch.hpp"
#include "core/simd.hpp"
#include "kit/detection_rows.hpp"
#include "kit/labels.hpp"
#include "kit/passes.hpp"
#include "layers/multibox_loss/multibox_passes.hpp"
#include "layers/multibox_loss/settings.hpp"
#include "layers/multibox_loss/truths.hpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_passes.hpp"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // scores that a thread should have at least

/// A predicted location less the encoded true box, and the factor of the prediction in it.
struct Difference {
  std::array<double, kEdges> value, factor;
};

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

/// What is kept from pass to pass: memory, and the last priors.
template <class T>
struct Scratch {
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
  Truths<T> truths;
  BoxColumns<T> priors, around_priors;  // and edges around runs of them
  std::vector<T> checked;               // values of bottom 2 that `priors` were made from
  std::vector<T> overlaps;              // (images, locations, priors)
  std::vector<T> one_hot;               // (classes + 1, classes); the last row is 0
  std::vector<OfThread> threads;
};

class MultiBoxLossLayer : public TwoSidedLayer {
 public:
  explicit MultiBoxLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        settings_(init.param.multibox_loss_param()),
        normalization_(init.param),
        counts_{counts(init.param, 0), counts(init.param, 1)} {
    check_loss_settings(init, false);
  }

  Arity arity() const override { return {.min_bottoms = 4, .max_bottoms = 4}; }
  float default_loss_weight(int) const override { return 1; }
  bool can_propagate(int bottom) const override { return bottom < 2; }

  void reshape(Blobs bottom, Blobs top) override {
    priors_ = prior_count(*bottom[2]);
    const Shape &locations = bottom[0]->shape(), &scores = bottom[1]->shape();
    const auto check = [&](const Shape& shape, const Blob& blob, int64_t each, const char* what) {
      if (shape.rank() >= 1 && shape.count(1) == priors_ * each) return;
      throw Error("'", blob.name, "' (", shape.str(), ") must have ", each, " ", what,
                  " for each of the ", priors_, " priors of '", bottom[2]->name, "' (",
                  bottom[2]->shape().str(), "): N x ", priors_ * each);
    };
    check(locations, *bottom[0], kEdges * settings_.locations,
          settings_.locations == 1 ? "values" : "values (share_location: false)");
    check(scores, *bottom[1], settings_.classes, "scores (num_classes)");
    images_ = locations[0];
    if (scores[0] != images_)
      throw Error("'", bottom[0]->name, "' (", locations.str(), ") and '", bottom[1]->name, "' (",
                  scores.str(), ") must have the same batch size");
    const Shape& truths = bottom[3]->shape();
    if (truths.rank() == 0 || truths[truths.rank() - 1] != kTruthRow)
      throw Error("'", bottom[3]->name,
                  "' must be rows of image, label, instance, xmin, ymin, xmax, ",
                  "ymax, difficult: 1 x 1 x G x 8, not ", truths.str());
    top[0]->reshape(Shape{});
  }

  void prepare_reference(Blobs, Blobs) override {
    const int64_t positions = images_ * priors_;
    labels_.reshape(Shape{positions});
    counted_.reshape(Shape{positions});
    matches_.resize(static_cast<size_t>(positions * settings_.locations));
    if (settings_.softmax) {
      log_sum_.reshape(Shape{positions});
      loss_.reshape(Shape{positions});
      loss_.set_layout(dtype(), Format::contiguous);
    } else {
      targets_.reshape(Shape{positions, settings_.classes});
      targets_.set_layout(dtype(), Format::contiguous);
    }
    parts_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override {
    return labels_.bytes() + counted_.bytes() + log_sum_.bytes() + loss_.bytes() +
           targets_.bytes() + matches_.size() * sizeof(int32_t) +
           matches_.size() * size_of(dtype());  // the overlaps
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[1]->count());
    return {4 * n, 2 * n};
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      if (settings_.softmax && !estimates<T>(side)) {
        for_each_position(side, split(), kGrain,
                          FindSums<T>{{split(), side.read<T>(bottom[1]->data), nullptr,
                                       side.overwrite<double>(log_sum_)},
                                      settings_.background,
                                      side.overwrite<T>(loss_)});
      }
      find_targets<T>(bottom, estimates<T>(side));
      T* const parts = side.overwrite<T>(parts_);
      sum(side, counts_[0] ? kEdges * pairs_ : 0, kPassGrain,
          LocationLoss{location_math(), side.read<double>(difference_)},
          settings_.location_weight / divisor(), parts);
      const T* x = side.read<T>(bottom[1]->data);
      if (settings_.softmax) {
        sum(side, counts_[1] ? count_ : 0, kElementGrain,
            ScoreLoss<T>{settings_.classes, side.read<int64_t>(counted_), x,
                         side.read<double>(log_sum_), side.read<int32_t>(labels_)},
            1 / divisor(), parts + 1);
      } else {
        sum(side, counts_[1] ? split().count() : 0, kPassGrain,
            CrossEntropyLoss<T>{x, side.read<T>(targets_), T{-1}}, 1 / divisor(), parts + 1);
      }
      for_each(side, 1, 1, AddParts<T>{parts, side.overwrite<T>(top[0]->data)});
    });
  }

  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const double scale = static_cast<double>(top[0]->diff.template host<T>()[0]) / divisor();
      for (size_t b = 0; b < 2; ++b) {
        if (propagate[b] && (b == 0 || !counts_[b])) fill_zero(side, bottom[b]->diff);
      }
      if (propagate[0] && counts_[0]) {
        for_each(side, kEdges * pairs_, kPassGrain,
                 LocationGradient<T>{location_math(), scale * settings_.location_weight,
                                     side.read<double>(difference_), side.read<double>(factor_),
                                     side.read<int64_t>(places_), side.change<T>(bottom[0]->diff)});
      }
      if (!propagate[1] || !counts_[1]) return;
      if (settings_.softmax) {
        return for_each_position(
            side, split(), 4 * kGrain,
            ScoreGradient<T>{settings_.classes, count_, side.read<int64_t>(counted_),
                             static_cast<T>(scale), side.read<T>(bottom[1]->data),
                             side.read<double>(log_sum_), side.read<int32_t>(labels_),
                             side.overwrite<T>(bottom[1]->diff)});
      }
      for_each(side, split().count(), kPassGrain,
               CrossEntropyGradient<T>{scale,
                                       {nullptr},
                                       side.read<T>(bottom[1]->data),
                                       side.read<T>(targets_),
                                       T{-1},
                                       side.overwrite<T>(bottom[1]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {Which{1}, false}; }

 private:
  /// Whether the loss of a bottom is part of the sum; propagate_down: false leaves it out.
  static bool counts(const LayerParameter& param, int bottom) {
    return param.propagate_down_size() <= bottom || param.propagate_down(bottom);
  }
  AxisSplit split() const {
    AxisSplit split;
    split.outer = images_ * priors_;
    split.size = settings_.classes;
    return split;
  }
  LocationMath location_math() const { return {settings_.smooth_l1}; }
  bool mines() const { return settings_.mining.kind != Mining::Kind::none; }
  bool hard() const { return settings_.mining.kind == Mining::Kind::hard_examples; }
  double divisor() const { return normalization_.divisor(images_, priors_, pairs_); }
  std::span<int32_t> matches(int64_t image, int64_t location) {
    return std::span(matches_).subspan(
        static_cast<size_t>((image * settings_.locations + location) * priors_),
        static_cast<size_t>(priors_));
  }

  /// Whether negatives are chosen by estimates of their losses. The logarithms of the sums of
  /// exponentials are then those of the positions that count and of a few more.
  template <class T>
  bool estimates(const Side& side) const {
    return std::is_same_v<T, float> && side.device() == nullptr && settings_.softmax && mines() &&
           !hard() && !settings_.mining.suppression;
  }

  /// Values of the bottoms on the host.
  template <class T>
  struct Values {
    const T *locations, *priors, *variances;
    const T* scores;        // null but where losses of examples are computed from them
    const double* log_sum;  // null but for softmax and hard examples
    const T* loss;          // of a prior without a match; null but for softmax and negatives
    double* log_sum_to;     // log_sum_, where it is found as far as needed; else null
  };

  /// On the host: matches, mines, and writes what the passes read.
  template <class T>
  void find_targets(Blobs bottom, bool estimated) {
    const T* priors = bottom[2]->data.template host<T>();
    const Values<T> values{
        bottom[0]->data.template host<T>(),
        priors,
        priors + kEdges * priors_,
        mines() && (hard() || !settings_.softmax || estimated) ? bottom[1]->data.template host<T>()
                                                               : nullptr,
        settings_.softmax && hard() ? log_sum_.host<double>() : nullptr,
        settings_.softmax && mines() && !hard() && !estimated ? loss_.template host<T>() : nullptr,
        estimated ? log_sum_.host_overwrite<double>() : nullptr};
    auto& memory = std::get<Scratch<T>>(memory_);
    prepare_memory(memory);
    read_priors(*bottom[2], values, memory);
    memory.truths.read(settings_, *bottom[3], images_);
    first_pair_.assign(static_cast<size_t>(images_) + 1, 0);
    counts_of_.resize(static_cast<size_t>(images_));
    int32_t* const labels = labels_.host_overwrite<int32_t>();
    int64_t* const counted = counted_.host_overwrite<int64_t>();
    T* const targets = settings_.softmax ? nullptr : targets_.host_overwrite<T>();
    parallel_for(images_, 1, [&](int64_t begin, int64_t end) {
      auto& scratch = scratch_of_thread(memory);
      for (int64_t image = begin; image < end; ++image) {
        match(image, values, memory, scratch);
        if (mines() && !memory.truths.boxes(image).empty())
          mine_image(image, values, memory, scratch);
        first_pair_[static_cast<size_t>(image) + 1] =
            write_labels(image, memory, scratch, labels + image * priors_);
        if (targets)
          write_targets(image, labels + image * priors_,
                        targets + image * priors_ * settings_.classes);
        int64_t* const own = counted + image * priors_;
        const int64_t count = list_counted(labels, image * priors_, scratch, own);
        counts_of_[static_cast<size_t>(image)] = count;
        if (values.log_sum_to)
          find_sums(std::span(own, static_cast<size_t>(count)), values, scratch);
      }
    });
    count_ = 0;
    for (int64_t image = 0; image < images_; ++image) {
      const int64_t* const own = counted + image * priors_;
      count_ = std::copy_n(own, counts_of_[static_cast<size_t>(image)], counted + count_) - counted;
    }
    for (size_t i = 1; i < first_pair_.size(); ++i) first_pair_[i] += first_pair_[i - 1];
    pairs_ = first_pair_.back();
    grow_pairs();
    double* const difference = difference_.host_overwrite<double>();
    double* const factor = factor_.host_overwrite<double>();
    int64_t* const places = places_.host_overwrite<int64_t>();
    parallel_for(images_, 1, [&](int64_t begin, int64_t end) {
      auto& scratch = scratch_of_thread(memory);
      for (int64_t image = begin; image < end; ++image) {
        int64_t pair = first_pair_[static_cast<size_t>(image)];
        for_each_pair(image, scratch, [&](int64_t location, int64_t prior, int32_t truth) {
          const Difference d = difference_of(image, location, prior, truth, values, memory);
          std::copy(d.value.begin(), d.value.end(), difference + kEdges * pair);
          std::copy(d.factor.begin(), d.factor.end(), factor + kEdges * pair);
          places[pair++] = place(image, location, prior);
        });
      }
    });
  }

  /// Writes the logarithms of the sums of exponentials of these positions.
  template <class T>
  void find_sums(std::span<const int64_t> positions, const Values<T>& values,
                 typename Scratch<T>::OfThread& scratch) const {
    if constexpr (std::is_same_v<T, float>) {
      log_sums_of(positions, settings_.classes, values.scores, scratch.rows, values.log_sum_to);
    }
  }

  template <class T>
  void prepare_memory(Scratch<T>& memory) {
    memory.overlaps.resize(matches_.size());
    const auto threads = static_cast<size_t>(omp_get_max_threads());
    if (memory.threads.size() < threads) memory.threads.resize(threads);
    if (!memory.one_hot.empty()) return;
    const auto classes = static_cast<size_t>(settings_.classes);
    memory.one_hot.resize((classes + 1) * classes);
    for (size_t c = 0; c < classes; ++c) memory.one_hot[c * classes + c] = 1;
  }

  template <class T>
  typename Scratch<T>::OfThread& scratch_of_thread(Scratch<T>& memory) const {
    // One piece only where another team runs this.
    return memory.threads[static_cast<size_t>(thread_number()) % memory.threads.size()];
  }

  template <class T>
  void read_priors(const Blob& blob, const Values<T>& values, Scratch<T>& memory) {
    // They are mostly those of the last batch.
    const std::span given(values.priors, static_cast<size_t>(2 * kEdges * priors_));
    if (given.size() == memory.checked.size() &&
        std::memcmp(given.data(), memory.checked.data(), given.size_bytes()) == 0)
      return;
    memory.checked.clear();
    check_priors(settings_.coder, blob.name, values.priors, values.variances, priors_);
    memory.priors.clear();
    for (int64_t p = 0; p < priors_; ++p) {
      memory.priors.add(BoundingBox<T>::load(values.priors + kEdges * p));
      for (int64_t k = kEdges * p; k < kEdges * (p + 1); ++k) {
        if (!(values.variances[k] > T{0}))
          throw Error("prior box ", p, " of '", blob.name, "' has the variance ",
                      values.variances[k], "; differences are divided by it");
      }
    }
    find_box_runs(memory.priors, memory.around_priors);
    memory.checked.assign(given.begin(), given.end());
  }

  int64_t place(int64_t image, int64_t location, int64_t prior) const {
    return (image * priors_ + prior) * settings_.locations + location;
  }

  /// The predicted box of a prior.
  template <class T>
  BoundingBox<T> predicted(int64_t image, int64_t location, int64_t prior,
                           const Values<T>& values) const {
    return settings_.coder.decode(
        BoundingBox<T>::load(values.priors + kEdges * prior), values.variances + kEdges * prior,
        BoundingBox<T>::load(values.locations + kEdges * place(image, location, prior)));
  }

  template <class T>
  void match(int64_t image, const Values<T>& values, Scratch<T>& memory,
             typename Scratch<T>::OfThread& scratch) {
    const auto truths = memory.truths.boxes(image);
    const auto labels = memory.truths.labels(image);
    T* const overlaps = memory.overlaps.data() + image * settings_.locations * priors_;
    if (settings_.by_priors) {
      const auto all = matches(image, 0);
      scratch.matcher.match(settings_.matching, memory.priors, memory.around_priors, truths,
                            all.data(), overlaps);
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
        match_predicted(image, l, values, memory, scratch, overlaps + l * priors_);
      }
    }
    const auto ignored = memory.truths.ignored(image);
    for (int64_t l = 0; settings_.ignores_difficult && l < settings_.locations; ++l) {
      for (int32_t& m : matches(image, l)) {
        if (m >= 0 && ignored[static_cast<size_t>(m)] != 0) m = kDifficult;
      }
    }
  }

  /// Matches predicted boxes with the true boxes of their class, or with all if they have none.
  template <class T>
  void match_predicted(int64_t image, int64_t location, const Values<T>& values, Scratch<T>& memory,
                       typename Scratch<T>::OfThread& scratch, T* overlaps) {
    const auto truths = memory.truths.boxes(image);
    const auto labels = memory.truths.labels(image);
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
  void mine_image(int64_t image, const Values<T>& values, Scratch<T>& memory,
                  typename Scratch<T>::OfThread& scratch) {
    const auto found = matches(image, 0);
    const T* const overlaps = memory.overlaps.data() + image * priors_;
    if (values.log_sum_to) return mine_by_estimates(image, values, overlaps, scratch);
    const auto labels = memory.truths.labels(image);
    const auto loss_of = [&](int64_t prior) {
      const int32_t truth = found[static_cast<size_t>(prior)];
      const int64_t label = truth >= 0 ? labels[static_cast<size_t>(truth)] : settings_.background;
      double loss = score_loss(image * priors_ + prior, label, values, memory);
      if (truth < 0 || !hard()) return loss;
      const Difference d = difference_of(image, 0, prior, truth, values, memory);
      for (const double value : d.value) loss += location_math().value(value);
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
      return settings_.suppresses_priors ? memory.priors[prior]
                                         : predicted(image, 0, prior, values);
    };
    scratch.miner.mine(settings_.mining, found, overlaps, losses, box_of);
  }

  template <class T>
  void mine_by_estimates(int64_t image, const Values<T>& values, const T* overlaps,
                         typename Scratch<T>::OfThread& scratch) {
    if constexpr (std::is_same_v<T, float>) {
      const int64_t first = image * priors_, classes = settings_.classes;
      scratch.losses.resize(static_cast<size_t>(priors_));
      estimate_losses(first, first + priors_, classes, settings_.background, values.scores,
                      scratch.losses.data());
      const auto find_losses = [&](std::span<Candidate<T>> candidates) {
        scratch.positions.clear();
        for (const auto& candidate : candidates)
          scratch.positions.push_back(first + candidate.index);
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

  /// The loss of the scores of one position; label `classes`: none of them.
  template <class T>
  double score_loss(int64_t position, int64_t label, const Values<T>& values,
                    const Scratch<T>& memory) const {
    const T* const scores = values.scores + position * settings_.classes;
    if (settings_.softmax) return values.log_sum[position] - static_cast<double>(scores[label]);
    return CrossEntropyLoss<T>{scores, memory.one_hot.data() + label * settings_.classes, T{-1}}
        .on_host(0, settings_.classes);
  }

  /// Writes the label of each prior of an image; -1 for no loss. Of a prior matched in several
  /// classes, it is the last. Returns the number of matches.
  template <class T>
  int64_t write_labels(int64_t image, const Scratch<T>& memory,
                       typename Scratch<T>::OfThread& scratch, int32_t* to) {
    const auto labels = memory.truths.labels(image);
    const int32_t background = static_cast<int32_t>(settings_.background);
    vectorized<label_unmatched>(priors_, static_cast<const int32_t*>(matches(image, 0).data()),
                                mines(), background, to);
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

  /// Writes the positions with a label, of those of an image that begin with `first`. Returns their
  /// number.
  template <class Memory>
  int64_t list_counted(const int32_t* labels, int64_t first, Memory& scratch, int64_t* to) const {
    const std::span own(labels + first, static_cast<size_t>(priors_));
    const auto counted = scratch.list.find(own, 0, std::numeric_limits<int32_t>::max());
    std::transform(counted.begin(), counted.end(), to, [&](int32_t p) { return first + p; });
    return static_cast<int64_t>(counted.size());
  }

  /// Logistic targets from labels: 1 for the classes of a prior. Negatives are of the background
  /// class if examples are mined, else of none.
  template <class T>
  void write_targets(int64_t image, const int32_t* labels, T* to) {
    const int64_t classes = settings_.classes;
    for (int64_t p = 0; p < priors_; ++p, to += classes) {
      std::fill_n(to, classes, labels[p] < 0 ? T{-1} : T{0});
      if (labels[p] < 0 || labels[p] == classes) continue;
      if (labels[p] != settings_.background || mines()) to[labels[p]] = 1;
      for (int64_t c = 0; settings_.locations > 1 && c < classes; ++c) {
        if (matches(image, c)[static_cast<size_t>(p)] >= 0) to[c] = 1;
      }
    }
  }

  /// body(location, prior, number of the true box) for all matches of an image.
  template <class Memory, class Body>
  void for_each_pair(int64_t image, Memory& scratch, const Body& body) {
    for (int64_t l = 0; l < settings_.locations; ++l) {
      const auto found = matches(image, l);
      for (const int32_t p : scratch.list.find(found, 0, std::numeric_limits<int32_t>::max()))
        body(l, p, found[static_cast<size_t>(p)]);
    }
  }
  /// Makes the tensors of pairs larger if they are too small for pairs_, with headroom, so that few
  /// batches allocate.
  void grow_pairs() {
    if (places_.count() >= pairs_ && places_.count() > 0) return;
    const int64_t room = 2 * pairs_ + 1;
    places_.reshape(Shape{room});
    difference_.reshape(Shape{room, kEdges});
    factor_.reshape(Shape{room, kEdges});
  }

  template <class T>
  Difference difference_of(int64_t image, int64_t location, int64_t prior, int32_t truth,
                           const Values<T>& values, const Scratch<T>& memory) const {
    const auto wide = [](const T* from) {
      return std::array<double, kEdges>{static_cast<double>(from[0]), static_cast<double>(from[1]),
                                        static_cast<double>(from[2]), static_cast<double>(from[3])};
    };
    const auto prior_box = wide(values.priors + kEdges * prior);
    const auto variance = wide(values.variances + kEdges * prior);
    const auto given = wide(values.locations + kEdges * place(image, location, prior));
    std::array<T, kEdges> edges;
    memory.truths.boxes(image)[static_cast<size_t>(truth)].store(edges.data());
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

  MultiBoxSettings settings_;
  LossNormalization normalization_;
  std::array<bool, 2> counts_;  // of locations and of scores: their loss is part of the sum
  int64_t images_ = 0, priors_ = 0;

  // Of the last forward.
  int64_t pairs_ = 0;                        // matched locations
  Tensor labels_{Shape{0}, DType::i32};      // of each prior of each image
  Tensor targets_;                           // logistic: of each score; -1: no loss
  Tensor log_sum_{Shape{0}, DType::f64};     // softmax: of the exponentials of each prior's scores
  Tensor loss_{Shape{0}};                    // softmax: of each prior, if it has no match
  int64_t count_ = 0;                        // positions with a label
  Tensor counted_{Shape{0}, DType::i64};     // count_ positions; more room behind them
  Tensor places_{Shape{0}, DType::i64};      // of pairs_ locations; more room behind them
  Tensor difference_{Shape{0}, DType::f64};  // four each
  Tensor factor_{Shape{0}, DType::f64};      // four each
  Tensor parts_{Shape{2}};                   // the losses of locations and scores

  std::vector<int32_t> matches_;     // (images, locations, priors); see BoxMatcher and mining.hpp
  std::vector<int64_t> first_pair_;  // of each image
  std::vector<int64_t> counts_of_;   // positions of each image with a label
  std::tuple<Scratch<float>, Scratch<double>> memory_;
};

}  // namespace

void register_multibox_loss(Registry& registry) {
  add_two_sided<MultiBoxLossLayer>(registry, "MultiBoxLoss");
}

}  // namespace crema
