// SigmoidCrossEntropyLoss: the logistic loss of each score against a target of its own. See
// README.md.
#include <limits>

#include "core/dispatch.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct Counts {
  const T* t;
  T ignored;
  CREMA_FUNCTOR double operator()(int64_t i) const { return t[i] == ignored ? 0 : 1; }
};

template <class T>
struct Divide {
  CountedTargets valid;
  T* loss;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    loss[i] = static_cast<T>(static_cast<double>(loss[i]) / valid.divisor());
  }
};

class SigmoidCrossEntropyLossLayer : public TwoSidedLayer {
 public:
  explicit SigmoidCrossEntropyLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        ignored_(ignored_label(init.param)),
        weights_(init),
        normalization_(init.param, LossNormalization::Mode::batch_size) {
    check_loss_settings(init, {.class_weights = true});
    weights_.leave_out_frequency(init);
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  std::optional<MeanUnits> mean_over(int top, int64_t) const override {
    if (top != 0) return std::nullopt;
    if (counts()) return MeanUnits{valid_.read<double>()[0]};
    return normalization_.units(items_, values_, count());
  }
  float default_loss_weight(int) const override { return 1; }

  void reshape(Blobs bottom, Blobs top) override {
    items_ = compared_items(bottom);
    const Shape& shape = bottom[0]->shape();
    values_ = shape.count(1);
    classes_ = shape.rank() > 1 ? shape[1] : 1;
    weights_.reshape(*bottom[0], classes_, dtype());
    top[0]->reshape(Shape{});
  }

  size_t kept_bytes() const override { return weights_.bytes(); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {6 * n, 5 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *x = device.read<T>(bottom[0]->data), *t = device.read<T>(bottom[1]->data);
      T* loss = device.overwrite<T>(top[0]->data);
      const CrossEntropyLoss<T> each{x, t, ignored<T>()};
      if (weights_.weigh()) {
        sum(device, count(), kPassGrain, WeightedCrossEntropyLoss<T>{each, factors<T>(device)},
            1 / known_divisor(), loss);
      } else {
        sum(device, count(), kPassGrain, each, 1 / known_divisor(), loss);
      }
      if (!counts()) return;
      sum(device, count(), kElementGrain, Counts<T>{t, ignored<T>()}, 1,
          device.overwrite<double>(valid_));
      for_each(device, 1, 1, Divide<T>{valid(device), loss});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      const CrossEntropyGradient<T> each{seed.template over<double>(known_divisor()),
                                         valid(device),
                                         device.read<T>(bottom[0]->data),
                                         device.read<T>(bottom[1]->data),
                                         ignored<T>(),
                                         device.overwrite<T>(bottom[0]->diff)};
      if (weights_.weigh()) {
        for_each(device, count(), kPassGrain,
                 WeightedCrossEntropyGradient<T>{each, factors<T>(device)});
      } else {
        for_each(device, count(), kPassGrain, each);
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0, 1}, false}; }

 private:
  template <class T>
  T ignored() const {
    return ignored_ ? static_cast<T>(*ignored_) : std::numeric_limits<T>::quiet_NaN();
  }
  int64_t count() const { return items_ * values_; }
  template <class T>
  ClassFactors<T> factors(const ComputeDevice& device) const {
    return {weights_.weight<T>(device), classes_,
            std::max<int64_t>(values_ / std::max<int64_t>(classes_, 1), 1)};
  }
  /// Whether the divisor is the number of targets that are not ignored.
  bool counts() const {
    return ignored_ && normalization_.mode() == LossNormalization::Mode::valid;
  }
  CountedTargets valid(const ComputeDevice& device) const {
    return {counts() ? device.read<double>(valid_) : nullptr};
  }
  /// The divisor, or 1 if it is counted.
  double known_divisor() const {
    return counts() ? 1 : normalization_.divisor(items_, values_, count());
  }

  std::optional<int> ignored_;
  ClassWeights weights_;
  LossNormalization normalization_;
  int64_t items_ = 0, values_ = 0;     // values of an item
  int64_t classes_ = 1;                // along axis 1
  Tensor valid_{Shape{}, DType::f64};  // the number of targets that are not ignored, if it counts
};

}  // namespace

void register_sigmoid_cross_entropy_loss(Registry& registry) {
  add_two_sided<SigmoidCrossEntropyLossLayer>(registry, "SigmoidCrossEntropyLoss");
}

}  // namespace crema
