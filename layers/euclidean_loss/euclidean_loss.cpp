// EuclideanLoss: half the mean over the batch of squared distances. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

/// What one element adds to the loss, before division by 2 N.
template <class T>
struct SquaredDistance {
  const T *a, *b;
  CREMA_FUNCTOR double operator()(int64_t i) const {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    return difference * difference;
  }
};

/// The gradient of bottom 0 with scale = loss weight / N; that of bottom 1 is its negative.
template <class T>
struct DistanceGradient {
  SeedFactor<T> scale;
  const T *a, *b;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const { dx[i] = scale * (a[i] - b[i]); }
  void on_host(int64_t begin, int64_t end) const {
    const T factor = scale;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) dx[i] = factor * (a[i] - b[i]);
  }
};

class EuclideanLossLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  float default_loss_weight(int) const override { return 1; }

  void reshape(Blobs bottom, Blobs top) override {
    items_ = std::max<int64_t>(compared_items(bottom), 1);  // the loss of an empty batch is 0
    top[0]->reshape(Shape{});
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {3 * n, 2 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      sum(device, bottom[0]->count(), kElementGrain,
          SquaredDistance<T>{device.read<T>(bottom[0]->data), device.read<T>(bottom[1]->data)},
          0.5 / static_cast<double>(items_), device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *a = device.read<T>(bottom[0]->data), *b = device.read<T>(bottom[1]->data);
      const auto scale = LossSeed<T>(device, *top[0]).over(static_cast<double>(items_));
      for (size_t k = 0; k < 2; ++k) {
        if (!propagate[k]) continue;
        T* dx = device.overwrite<T>(bottom[k]->diff);
        for_each(device, bottom[0]->count(), kElementGrain,
                 DistanceGradient<T>{k == 0 ? scale : scale.times(-1), a, b, dx});
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0, 1}, false}; }

 private:
  int64_t items_ = 1;  // N
};

}  // namespace

void register_euclidean_loss(Registry& registry) {
  add_two_sided<EuclideanLossLayer>(registry, "EuclideanLoss");
}

}  // namespace crema
