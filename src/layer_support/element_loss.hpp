// Losses that add up a function of the difference of two bottoms, element by element, and divide by
// the batch size, or by what a room says. Sources include layer_support/passes.hpp themselves, so
// that nvcc compiles them.
//
//   struct Math {                       // in double, for the host and for a device
//     static Math of(const LayerParameter& param);
//     CREMA_FUNCTOR double value(double d) const;
//     CREMA_FUNCTOR double slope(double d) const;   // its derivative
//   };
#pragma once

#include <algorithm>

#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"

namespace crema {

/// What element i adds to the loss: outside[i] * value(inside[i] * (a[i] - b[i])). The weights may
/// be null: 1.
template <class T, class Math>
struct ElementLossTerm {
  Math math;
  const T *a, *b, *inside, *outside;

  CREMA_FUNCTOR double difference(int64_t i) const {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    return inside ? static_cast<double>(inside[i]) * d : d;
  }
  CREMA_FUNCTOR double operator()(int64_t i) const {
    const double value = math.value(difference(i));
    return outside ? static_cast<double>(outside[i]) * value : value;
  }
  CREMA_FUNCTOR double slope(int64_t i) const {
    double slope = math.slope(difference(i));
    if (inside) slope *= static_cast<double>(inside[i]);
    return outside ? static_cast<double>(outside[i]) * slope : slope;
  }
};

template <class T, class Math>
struct ElementLossGradient {
  ElementLossTerm<T, Math> term;
  SeedFactor<T, double> scale;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const { dx[i] = static_cast<T>(scale * term.slope(i)); }
  void on_host(int64_t begin, int64_t end) const {
    const double factor = scale;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) dx[i] = static_cast<T>(factor * term.slope(i));
  }
};

/// Bottoms 0 and 1 are compared; bottoms 2 and 3, if they are there, are the inside and the outside
/// weights. Only bottoms 0 and 1 have gradients.
template <class Math>
class ElementLossLayer : public TwoSidedLayer {
 public:
  ElementLossLayer(const LayerInit& init, int most_bottoms, int most_tops = 1)
      : TwoSidedLayer(init),
        math_(Math::of(init.param)),
        most_bottoms_(most_bottoms),
        most_tops_(most_tops) {}

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = most_bottoms_, .max_tops = most_tops_};
  }
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }
  bool can_propagate(int bottom) const override { return bottom < 2; }
  bool has_gradient(int top) const override { return top == 0; }
  bool takes_constants(int bottom) const override { return bottom >= 2; }

  void reshape(Blobs bottom, Blobs top) override {
    items_ = compared_items(bottom);
    for (size_t k = 2; k < bottom.size(); ++k) {
      if (bottom[k]->count() != bottom[0]->count())
        throw Error("'", bottom[k]->name, "' (", bottom[k]->shape().str(), ") has ",
                    bottom[k]->count(), " weights for the ", bottom[0]->count(), " values of '",
                    bottom[0]->name, "' (", bottom[0]->shape().str(), "); give one for each");
      check_in_step(*bottom[0], bottom[0]->shape(), *bottom[k]);
    }
    top[0]->reshape(Shape{});
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 4 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      sum(device, bottom[0]->count(), kElementGrain, term<T>(device, bottom), 1 / divisor(),
          device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      const auto scale = seed.template over<double>(divisor());
      for (size_t k = 0; k < 2; ++k) {
        if (!propagate[k]) continue;
        for_each(
            device, bottom[0]->count(), kElementGrain,
            ElementLossGradient<T, Math>{term<T>(device, bottom), k == 0 ? scale : scale.times(-1),
                                         device.overwrite<T>(bottom[k]->diff)});
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {true, false}; }

  /// What the sum is divided by; at least 1, so that the loss of an empty batch is 0.
  virtual double divisor() const { return static_cast<double>(std::max<int64_t>(items_, 1)); }

  template <class T>
  ElementLossTerm<T, Math> term(const ComputeDevice& device, Blobs bottom) const {
    const auto values = [&](size_t k) -> const T* {
      return k < bottom.size() ? device.read<T>(bottom[k]->data) : nullptr;
    };
    return {math_, values(0), values(1), values(2), values(3)};
  }

 private:
  Math math_;
  int most_bottoms_, most_tops_;
  int64_t items_ = 0;  // N
};

}  // namespace crema
