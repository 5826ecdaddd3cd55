// MultinomialLogisticLoss: the mean of -log(probability of the label). See README.md.
#include "core/dispatch.hpp"
#include "kit/labels.hpp"
#include "kit/passes.hpp"

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
  CREMA_FUNCTOR double operator()(int64_t i) const {
    if (labels[i] < 0) return 0;
    return -std::log(static_cast<double>(at_least(x[i * classes + labels[i]])));
  }
};

/// The gradient of the labels' probabilities; the others' is 0.
template <class T>
struct LabelGradient {
  int64_t classes;
  T scale;
  const T* x;
  const int32_t* labels;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    if (labels[i] < 0) return;
    const int64_t at = i * classes + labels[i];
    dx[at] = -scale / at_least(x[at]);
  }
};

class MultinomialLogisticLossLayer : public LabelLoss {
 public:
  explicit MultinomialLogisticLossLayer(const LayerInit& init) : LabelLoss(init, 1) {}

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_items(bottom);
    top[0]->reshape(Shape{});
  }

  Flops flops(Blobs, Blobs) const override {
    const double n = static_cast<double>(scores().outer);
    return {2 * n, n};
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(side, bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      sum(side, scores().outer, kPassGrain,
          ItemLoss<T>{scores().size, side.read<T>(bottom[0]->data), labels}, 1 / divisor(),
          side.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    fill_zero(side, bottom[0]->diff);
    dispatch_float(dtype(), [&]<class T>(T) {
      const double weight = static_cast<double>(top[0]->diff.template host<T>()[0]);
      for_each(side, scores().outer, kPassGrain,
               LabelGradient<T>{scores().size, static_cast<T>(weight / divisor()),
                                side.read<T>(bottom[0]->data), labels(side),
                                side.change<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }
};

}  // namespace

void register_multinomial_logistic_loss(Registry& registry) {
  add_two_sided<MultinomialLogisticLossLayer>(registry, "MultinomialLogisticLoss");
}

}  // namespace crema
