// TripletLoss: draws similar samples together, and pushes others a margin further away. See
// README.md.
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Of each triplet: the squared distances of the anchor, and that of the others from each other.
struct Distances {
  double* positive;
  double* negative;
  double* between;  // null: not wanted
};

template <class T>
struct MeasureTriplets {
  AxisSplit split;
  const T *a, *p, *n;
  Distances squared;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) (*this)(i);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    double positive = 0, negative = 0, between = 0;
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = i * split.size + c;
      const double anchor = static_cast<double>(a[at]);
      const double to_p = anchor - static_cast<double>(p[at]);
      const double to_n = anchor - static_cast<double>(n[at]);
      positive += to_p * to_p;
      negative += to_n * to_n;
      if (!squared.between) continue;
      const double apart = static_cast<double>(p[at]) - static_cast<double>(n[at]);
      between += apart * apart;
    }
    positive = lanes.sum(positive);
    negative = lanes.sum(negative);
    between = lanes.sum(between);
    if (lanes.first != 0) return;
    squared.positive[i] = positive;
    squared.negative[i] = negative;
    if (squared.between) squared.between[i] = between;
  }
};

/// What a triplet adds to the loss, before the division.
struct Triplet {
  double margin;
  bool by_square;
  const double *positive, *negative;  // squared distances
  const double* between;              // null: not compared

  /// Whether the similar sample is the one that the other sample is too near to.
  CREMA_FUNCTOR bool swaps(int64_t i) const { return between && between[i] < negative[i]; }
  CREMA_FUNCTOR double other(int64_t i) const { return swaps(i) ? between[i] : negative[i]; }
  CREMA_FUNCTOR double distance(double squared) const {
    return by_square ? squared : std::sqrt(squared);
  }
  CREMA_FUNCTOR double operator()(int64_t i) const {
    const double missing = distance(positive[i]) - distance(other(i)) + margin;
    return missing <= 0 ? 0 : missing;  // NaN stays
  }
  /// The derivative of a distance by a coordinate is this times the difference.
  CREMA_FUNCTOR double slope(int64_t i, double squared) const {
    if ((*this)(i) == 0) return 0;
    if (by_square) return 2;
    return squared > 0 ? 1 / std::sqrt(squared) : 0;
  }
};

template <class T>
struct TripletGradient {
  AxisSplit split;
  Triplet triplet;
  SeedFactor<T, double> scale;
  const T *a, *p, *n;
  T *da, *dp, *dn;  // null: not wanted

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) (*this)(i);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const T near = static_cast<T>(scale * triplet.slope(i, triplet.positive[i]));
    const T far = static_cast<T>(scale * triplet.slope(i, triplet.other(i)));
    const bool swaps = triplet.swaps(i);
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = i * split.size + c;
      const T to_p = near * (a[at] - p[at]), to_n = far * ((swaps ? p[at] : a[at]) - n[at]);
      if (da) da[at] = swaps ? to_p : to_p - to_n;
      if (dp) dp[at] = swaps ? -to_p - to_n : -to_p;
      if (dn) dn[at] = to_n;
    }
  }
};

class TripletLossLayer : public TwoSidedLayer {
 public:
  explicit TripletLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        margin_(static_cast<double>(init.param.triplet_loss_param().margin())),
        by_square_(init.param.triplet_loss_param().squared()),
        swap_(init.param.triplet_loss_param().swap()) {
    if (!(margin_ >= 0 && std::isfinite(margin_)))
      throw Error("margin ", margin_, " is no distance; give a number from 0 on");
  }

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 3}; }
  float default_loss_weight(int) const override { return 1; }

  void reshape(Blobs bottom, Blobs top) override {
    triplets_.outer = compared_items(bottom);
    triplets_.size = bottom[0]->shape().count(1);
    Blob* const others[] = {bottom[0], bottom[2]};
    compared_items(others);
    top[0]->reshape(Shape{});
    positive_.reshape(Shape{triplets_.outer});
    negative_.reshape(Shape{triplets_.outer});
    between_.reshape(Shape{swap_ ? triplets_.outer : 0});
  }
  size_t kept_bytes() const override {
    return positive_.bytes() + negative_.bytes() + between_.bytes();
  }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {6 * n, 6 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Distances squared{device.overwrite<double>(positive_),
                            device.overwrite<double>(negative_),
                            swap_ ? device.overwrite<double>(between_) : nullptr};
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each_position(device, positions(), kElementGrain,
                        MeasureTriplets<T>{triplets_, device.read<T>(bottom[0]->data),
                                           device.read<T>(bottom[1]->data),
                                           device.read<T>(bottom[2]->data), squared});
      sum(device, triplets_.outer, kElementGrain, triplet(device), 1 / divisor(),
          device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      const auto gradient = [&](size_t k) {
        return propagate[k] ? device.overwrite<T>(bottom[k]->diff) : nullptr;
      };
      for_each_position(
          device, positions(), kElementGrain,
          TripletGradient<T>{triplets_, triplet(device), seed.template over<double>(divisor()),
                             device.read<T>(bottom[0]->data), device.read<T>(bottom[1]->data),
                             device.read<T>(bottom[2]->data), gradient(0), gradient(1),
                             gradient(2)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {true, false}; }

 private:
  double divisor() const {
    const double items = static_cast<double>(std::max<int64_t>(triplets_.outer, 1));
    return by_square_ ? 2 * items : items;
  }
  Triplet triplet(const ComputeDevice& device) const {
    return {margin_, by_square_, device.read<double>(positive_), device.read<double>(negative_),
            swap_ ? device.read<double>(between_) : nullptr};
  }
  AxisSplit positions() const {
    AxisSplit split = triplets_;
    split.size = std::max<int64_t>(split.size, 1);
    return split;
  }

  double margin_;
  bool by_square_, swap_;
  AxisSplit triplets_;  // (N, values of an item)
  // Squared distances; between_ has those of swap.
  Tensor positive_{Shape{0}, DType::f64}, negative_{Shape{0}, DType::f64};
  Tensor between_{Shape{0}, DType::f64};
};

}  // namespace

void register_triplet_loss(Registry& registry) {
  add_two_sided<TripletLossLayer>(registry, "TripletLoss");
}

}  // namespace crema
