// MultinomialLogisticLoss: the mean of -log(probability of the label). See README.md.
#include "core/dispatch.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

/// Probabilities below it count as this one; a NaN stays.
template <class T>
CREMA_FUNCTOR T at_least(T probability) {
  constexpr T kLeast = T(1e-20);
  return probability < kLeast ? kLeast : probability;
}

template <class T>
struct ItemLoss {
  int64_t classes;
  const T* x;
  const int32_t* labels;
  const T* weight;  // one a class; null: 1
  CREMA_FUNCTOR double operator()(int64_t i) const {
    if (labels[i] < 0) return 0;
    const double loss = -std::log(static_cast<double>(at_least(x[i * classes + labels[i]])));
    return weight ? static_cast<double>(weight[labels[i]]) * loss : loss;
  }
};

/// The gradient of the labels' probabilities; the others' is 0.
template <class T>
struct LabelGradient {
  int64_t classes;
  SeedFactor<T> scale;
  const T* x;
  const int32_t* labels;
  const T* weight;  // one a class; null: 1
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    if (labels[i] < 0) return;
    const int64_t at = i * classes + labels[i];
    dx[at] = -(weight ? scale * weight[labels[i]] : T{scale}) / at_least(x[at]);
  }
};

class MultinomialLogisticLossLayer : public LabelLoss {
 public:
  std::string host_part() const override {
    return weights_.by_frequency() ? "weights of classes" : "";
  }
  bool host_reads(int b) const override { return b == 1; }
  bool host_writes() const override { return false; }
  explicit MultinomialLogisticLossLayer(const LayerInit& init)
      : LabelLoss(init, 1, {.class_weights = true}), weights_(init) {}

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_items(bottom);
    weights_.reshape(*bottom[0], scores().size, dtype());
    top[0]->reshape(Shape{});
  }

  size_t kept_bytes() const override { return weights_.bytes(); }

  Flops flops(Blobs, Blobs) const override {
    const double n = static_cast<double>(scores().outer);
    return {2 * n, n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(device, bottom);
    if (weights_.by_frequency())
      weights_.count(LabelLoss::labels(ComputeDevice()), scores().positions());
    dispatch_float(dtype(), [&]<class T>(T) {
      sum(device, scores().outer, kPassGrain,
          ItemLoss<T>{scores().size, device.read<T>(bottom[0]->data), labels,
                      weights_.weight<T>(device)},
          1 / divisor(), device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    fill_zero(device, bottom[0]->diff);
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      for_each(device, scores().outer, kPassGrain,
               LabelGradient<T>{scores().size, seed.over(divisor()),
                                device.read<T>(bottom[0]->data), labels(device),
                                weights_.weight<T>(device), device.change<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }

 private:
  ClassWeights weights_;
};

}  // namespace

void register_multinomial_logistic_loss(Registry& registry) {
  add_two_sided<MultinomialLogisticLossLayer>(registry, "MultinomialLogisticLoss");
}

}  // namespace crema
