// SoftmaxWithLoss: the mean of -log(softmax(x)[label]). See README.md.
#include <algorithm>

#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "core/parallel.hpp"
#include "kit/labels.hpp"
#include "kit/passes.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least

/// The loss of one position: the log of the sum of exponentials, less the scores as the target
/// weighs them.
template <class T>
struct PositionLoss {
  AxisSplit split;
  double smoothing;
  const T* x;
  const double* log_sum;
  const int32_t* labels;

  CREMA_FUNCTOR double operator()(int64_t i) const {
    if (labels[i] < 0) return 0;
    const T* scores = x + split.at(i);
    double loss =
        log_sum[i] - (1 - smoothing) * static_cast<double>(scores[labels[i] * split.inner]);
    const double spread = smoothing / static_cast<double>(split.size);
    for (int64_t c = 0; spread > 0 && c < split.size; ++c) {
      loss -= spread * static_cast<double>(scores[c * split.inner]);
    }
    return loss;
  }
};

/// dx = scale * (probability - target), where the target of a position gives 1 - smoothing to its
/// label, and spreads smoothing over all classes evenly.
template <class T>
struct ScoreGradient {
  AxisSplit split;
  T scale, label_target, other_target;
  const T* probability;
  const int32_t* labels;
  T* dx;

  CREMA_FUNCTOR T gradient(int64_t at, int32_t c, int32_t label) const {
    const T value = scale * (probability[at] - (c == label ? label_target : other_target));
    return label < 0 ? T{0} : value;
  }

  void on_host(int64_t begin, int64_t end) const {
    if (split.inner == 1) {
      for (int64_t i = begin; i < end; ++i) position(i);
      return;
    }
    for (int64_t i = begin; i < end;) {
      const int64_t count = std::min(split.inner - i % split.inner, end - i);
      for (int32_t c = 0; c < split.size; ++c) {
        const int64_t at = split.at(i) + c * split.inner;
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) dx[at + j] = gradient(at + j, c, labels[i + j]);
      }
      i += count;
    }
  }
  /// A position whose classes are neighbours, on the host.
  void position(int64_t i) const {
    const int64_t begin = i * split.size, end = begin + split.size;
    if (labels[i] < 0) {
      std::fill(dx + begin, dx + end, T{0});
      return;
    }
#pragma omp simd
    for (int64_t at = begin; at < end; ++at) dx[at] = scale * (probability[at] - other_target);
    dx[begin + labels[i]] = gradient(begin + labels[i], labels[i], labels[i]);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      dx[at] = gradient(at, static_cast<int32_t>(c), labels[i]);
    }
  }
};

/// Of a label that is a probability for each class: the target is (1 - smoothing) times it, and
/// smoothing spread over all classes evenly.
template <class T>
struct Target {
  AxisSplit split;
  double smoothing;
  const T* probability;

  CREMA_FUNCTOR double at(int64_t element) const {
    return (1 - smoothing) * static_cast<double>(probability[element]) +
           smoothing / static_cast<double>(split.size);
  }
};

/// The loss of one position: the sum of -log(softmax) by the target.
template <class T>
struct TargetLoss {
  Target<T> target;
  const T* x;
  const double* log_sum;

  CREMA_FUNCTOR double operator()(int64_t i) const {
    const AxisSplit& split = target.split;
    double loss = 0;
    for (int64_t c = 0; c < split.size; ++c) {
      const int64_t at = split.at(i) + c * split.inner;
      const auto share = target.at(at);
      // A class that cannot be has a score of -inf.
      if (share != 0) loss += share * (log_sum[i] - static_cast<double>(x[at]));
    }
    return loss;
  }
};

/// dx = scale * (sum of the target * softmax - target).
template <class T>
struct TargetGradient {
  Target<T> target;
  double scale;
  const T* softmax;
  T* dx;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) (*this)(i);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const AxisSplit& split = target.split;
    double sum = 0;
    for (int64_t c = lanes.first; c < split.size; c += lanes.count)
      sum += target.at(split.at(i) + c * split.inner);
    sum = lanes.sum(sum);
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      dx[at] = static_cast<T>(scale * (sum * static_cast<double>(softmax[at]) - target.at(at)));
    }
  }
};

/// Error unless the values of positions [begin, end), at most kBlock, are probabilities.
constexpr int64_t kBlock = 64;
template <class T>
void check_probabilities(const AxisSplit& split, int64_t begin, int64_t end, const T* values) {
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
  for (int64_t i = 0; i < count; ++i) {
    if (!(sums[i] > 1 - kNear && sums[i] < 1 + kNear))
      throw Error("the labels have the shape of the scores, and the probabilities at position ",
                  begin + i, " sum to ", sums[i], "; they have to sum to 1");
  }
}

/// The same for all positions. On the host.
template <class T>
void check_probabilities(const AxisSplit& split, const T* values) {
  const int64_t blocks = (split.positions() + kBlock - 1) / kBlock;
  parallel_for(blocks, kGrain / (kBlock * std::max<int64_t>(split.size, 1)),
               [=](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) {
                   const int64_t first = block * kBlock;
                   check_probabilities(split, first, std::min(first + kBlock, split.positions()),
                                       values);
                 }
               });
}

class SoftmaxLossLayer : public LabelLoss {
 public:
  explicit SoftmaxLossLayer(const LayerInit& init)
      : LabelLoss(init, init.param.softmax_param().axis(), true),
        smoothing_(init.param.loss_param().label_smoothing()) {
    if (!(smoothing_ >= 0 && smoothing_ < 1))
      throw Error("label_smoothing ", smoothing_,
                  " is outside [0, 1); give the share of the target that all classes get");
  }

  void reshape(Blobs bottom, Blobs top) override {
    soft_ = reshape_probabilities(bottom);
    if (!soft_) reshape_scores(bottom);
    if (soft_ && param().loss_param().has_ignore_label())
      throw Error(
          "'", bottom[1]->name, "' (", bottom[1]->shape().str(),
          ") holds probabilities, and ignore_label is for labels that are numbers; remove it");
    top[0]->reshape(Shape{});
    if (top.size() > 1) top[1]->reshape(bottom[0]->shape());
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    log_sum_.reshape(Shape{scores().positions()});
    if (!trains()) return;
    if (soft_) {
      target_.reshape(bottom[0]->shape());
      target_.set_layout(dtype(), Format::contiguous);
    }
    probability_.reshape(bottom[0]->shape());
    probability_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override {
    return log_sum_.bytes() + probability_.bytes() + target_.bytes();
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 2 * n};
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    const int32_t* labels = soft_ ? nullptr : read_labels(side, bottom);
    Tensor* shown = top.size() > 1 ? &top[1]->data : nullptr;
    Tensor* kept = trains() ? &probability_ : shown;
    double* log_sum = side.overwrite<double>(log_sum_);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = side.read<T>(bottom[0]->data);
      for_each_position(
          side, scores(), kGrain,
          SoftmaxForward<T>{scores(), x, kept ? side.overwrite<T>(*kept) : nullptr, log_sum});
      T* const loss = side.overwrite<T>(top[0]->data);
      if (soft_) {
        check_probabilities(scores(), bottom[1]->data.template host<T>());
        const T* given = side.read<T>(bottom[1]->data);
        sum(side, scores().positions(), kGrain,
            TargetLoss<T>{{scores(), smoothing_, given}, x, log_sum},
            1 / divisor(scores().positions()), loss);
      } else {
        sum(side, scores().positions(), kGrain,
            PositionLoss<T>{scores(), smoothing_, x, log_sum, labels}, 1 / divisor(), loss);
      }
    });
    if (soft_ && trains()) copy(side, bottom[1]->data, target_);
    if (shown && shown != kept) copy(side, *kept, *shown);
  }

  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const double weight = static_cast<double>(top[0]->diff.template host<T>()[0]);
      if (soft_) {
        const Target<T> target{scores(), smoothing_, side.read<T>(target_)};
        return for_each_position(
            side, scores(), 4 * kGrain,
            TargetGradient<T>{target, weight / divisor(scores().positions()),
                              side.read<T>(probability_), side.overwrite<T>(bottom[0]->diff)});
      }
      const double other = smoothing_ / static_cast<double>(scores().size);
      for_each_position(side, scores(), 4 * kGrain,
                        ScoreGradient<T>{scores(), static_cast<T>(weight / divisor()),
                                         static_cast<T>(1 - smoothing_ + other),
                                         static_cast<T>(other), side.read<T>(probability_),
                                         labels(side), side.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  // The probabilities and labels that backward needs are kept here.
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  double smoothing_;
  bool soft_ = false;                     // labels are probabilities of the classes
  Tensor log_sum_{Shape{0}, DType::f64};  // of the sum of exponentials, one a position
  Tensor target_;       // the labels, where they are probabilities and the layer trains
  Tensor probability_;  // of the scores' shape, where the layer trains
};

}  // namespace

void register_softmax_loss(Registry& registry) {
  add_two_sided<SoftmaxLossLayer>(registry, "SoftmaxWithLoss");
}

}  // namespace crema
