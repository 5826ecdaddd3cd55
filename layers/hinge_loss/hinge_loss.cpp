// HingeLoss: each class against all others, the sum of max(0, 1 - t x)^p. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/sums.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// max(0, 1 + sign * x), where `sign` is -1 for the label's score; NaN for NaN.
template <class V, class T>
CREMA_FUNCTOR V margin_of(T x, V sign) {
  const V margin = V{1} + sign * static_cast<V>(x);
  return margin <= 0 ? V{0} : margin;
}

/// The loss of each position, in double.
template <class T>
struct PositionLoss {
  AxisSplit split;
  bool squared;
  const T* x;
  const int32_t* labels;
  const T* weight;  // one a class; null: 1
  double* loss;

  /// Of an item of the label.
  CREMA_FUNCTOR double weighted(int32_t label, double sum) const {
    if (label < 0) return 0;
    return weight ? static_cast<double>(weight[label]) * sum : sum;
  }
  CREMA_FUNCTOR double term(T score, double sign) const {
    const double margin = margin_of<double>(score, sign);
    return squared ? margin * margin : margin;
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = x + i * split.size;
      const auto other = [=, this](int64_t c) { return term(row[c], 1); };
      loss[i] =
          labels[i] < 0
              ? 0
              : weighted(labels[i], sum_of_piece(0, labels[i], other) + term(row[labels[i]], -1) +
                                        sum_of_piece(labels[i] + 1, split.size, other));
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    double sum = 0;
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      sum += term(x[i * split.size + c], c == labels[i] ? -1 : 1);
    }
    sum = lanes.sum(sum);
    if (lanes.first == 0) loss[i] = weighted(labels[i], sum);
  }
};

template <class T>
struct ScoreGradient {
  AxisSplit split;
  bool squared;
  SeedFactor<T> scale;
  const T* x;
  const int32_t* labels;
  const T* weight;  // one a class; null: 1
  T* dx;

  /// Of an item of the label.
  CREMA_FUNCTOR T scale_of(int32_t label) const {
    const T factor = scale;
    return weight && label >= 0 ? factor * weight[label] : factor;
  }
  CREMA_FUNCTOR T gradient(T score, T sign, T factor) const {
    const T margin = margin_of<T>(score, sign);
    const T slope = margin > 0 ? T{1} : T{0};
    return sign * factor * (squared ? 2 * margin : slope);
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = x + i * split.size;
      T* to = dx + i * split.size;
      if (labels[i] < 0) {
        std::fill(to, to + split.size, T{0});
        continue;
      }
      const T factor = scale_of(labels[i]);
#pragma omp simd
      for (int64_t c = 0; c < split.size; ++c) to[c] = gradient(from[c], 1, factor);
      to[labels[i]] = gradient(from[labels[i]], -1, factor);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const T factor = scale_of(labels[i]);
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = i * split.size + c;
      dx[at] = labels[i] < 0 ? T{0} : gradient(x[at], c == labels[i] ? -1 : 1, factor);
    }
  }
};

class HingeLossLayer : public LabelLoss {
 public:
  std::string host_part() const override {
    return weights_.by_frequency() ? "weights of classes" : "";
  }
  bool host_reads(int b) const override { return b == 1; }
  bool host_writes() const override { return false; }
  explicit HingeLossLayer(const LayerInit& init)
      : LabelLoss(init, 1, {.class_weights = true}),
        weights_(init),
        squared_(init.param.hinge_loss_param().norm() == HingeLossParameter::L2) {}

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_items(bottom);
    weights_.reshape(*bottom[0], scores().size, dtype());
    top[0]->reshape(Shape{});
    loss_.reshape(Shape{scores().outer});
  }
  size_t kept_bytes() const override { return loss_.bytes() + weights_.bytes(); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 3 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(device, bottom);
    if (weights_.by_frequency())
      weights_.count(LabelLoss::labels(ComputeDevice()), scores().positions());
    double* loss = device.overwrite<double>(loss_);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each_position(device, scores(), kElementGrain,
                        PositionLoss<T>{scores(), squared_, device.read<T>(bottom[0]->data), labels,
                                        weights_.weight<T>(device), loss});
      sum(device, scores().outer, kElementGrain, Value<double>{loss}, 1 / divisor(),
          device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      for_each_position(
          device, scores(), kElementGrain,
          ScoreGradient<T>{scores(), squared_, seed.over(divisor()),
                           device.read<T>(bottom[0]->data), labels(device),
                           weights_.weight<T>(device), device.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }

 private:
  ClassWeights weights_;
  bool squared_;
  Tensor loss_{Shape{0}, DType::f64};  // one an item
};

}  // namespace

void register_hinge_loss(Registry& registry) {
  add_two_sided<HingeLossLayer>(registry, "HingeLoss");
}

}  // namespace crema
