// ContrastiveLoss: draws similar pairs together, pushes others apart up to a margin. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The squared distance of each pair, in double.
template <class T>
struct SquaredDistance {
  AxisSplit split;
  const T *a, *b;
  double* distance;

  CREMA_FUNCTOR double term(int64_t at) const {
    const double difference = static_cast<double>(a[at]) - static_cast<double>(b[at]);
    return difference * difference;
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      distance[i] = sum_of_piece(i * split.size, (i + 1) * split.size,
                                 [this](int64_t at) { return term(at); });
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    double sum = 0;
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) sum += term(i * split.size + c);
    sum = lanes.sum(sum);
    if (lanes.first == 0) distance[i] = sum;
  }
};

/// What a pair adds to the loss, before division by 2 N, and what its difference is multiplied by
/// in the gradient of bottom 0.
struct Pair {
  double margin;
  bool legacy;
  const double* squared;   // distances
  const int32_t* similar;  // 0 or 1

  CREMA_FUNCTOR double operator()(int64_t i) const {
    if (similar[i]) return squared[i];
    const double missing = margin - (legacy ? squared[i] : std::sqrt(squared[i]));
    if (missing <= 0) return 0;  // not so for NaN
    return legacy ? missing : missing * missing;
  }
  CREMA_FUNCTOR double slope(int64_t i) const {
    if (similar[i]) return 1;
    if (legacy) return squared[i] >= margin ? 0 : -1;
    constexpr double kLeastDistance = 1e-4;  // is added: the published gradient
    const double distance = std::sqrt(squared[i]);
    return distance >= margin ? 0 : (distance - margin) / (distance + kLeastDistance);
  }
};

template <class T>
struct PairGradient {
  AxisSplit split;
  Pair pair;
  SeedFactor<T, double> scale;
  const T *a, *b;
  T *da, *db;  // null: not wanted

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const T slope = static_cast<T>(scale * pair.slope(i));
      if (da) row(i, slope, da);
      if (db) row(i, -slope, db);
    }
  }
  void row(int64_t i, T slope, T* d) const {
    const int64_t first = i * split.size, end = first + split.size;
#pragma omp simd
    for (int64_t at = first; at < end; ++at) d[at] = slope * (a[at] - b[at]);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const T slope = static_cast<T>(scale * pair.slope(i));
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = i * split.size + c;
      const T gradient = slope * (a[at] - b[at]);
      if (da) da[at] = gradient;
      if (db) db[at] = -gradient;
    }
  }
};

class ContrastiveLossLayer : public TwoSidedLayer {
 public:
  explicit ContrastiveLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        margin_(init.param.contrastive_loss_param().margin()),
        legacy_(init.param.contrastive_loss_param().legacy_version()) {
    if (!(margin_ >= 0 && std::isfinite(margin_)))
      throw Error("margin ", margin_,
                  " is no distance; give a number from 0 on, up to which pairs are pushed apart");
  }

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 3}; }
  bool can_propagate(int bottom) const override { return bottom < 2; }
  float default_loss_weight(int) const override { return 1; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &a = bottom[0]->shape(), &labels = bottom[2]->shape();
    pairs_.outer = compared_items(bottom);
    pairs_.size = a.count(1);
    if (pairs_.size == 0)
      throw Error("'", bottom[0]->name, "' (", a.str(),
                  ") has no values in an item; pairs of it have no distance");
    if (labels.count() != pairs_.outer)
      throw Error("'", bottom[0]->name, "' (", a.str(), ") has ", pairs_.outer, " items, but '",
                  bottom[2]->name, "' (", labels.str(), ") has ", labels.count(),
                  " labels; give one label for each pair");
    top[0]->reshape(Shape{});
    squared_.reshape(Shape{pairs_.outer});
  }
  size_t kept_bytes() const override { return squared_.bytes(); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {3 * n, 2 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    similar_.read(bottom[2]->data, 1, 2, std::nullopt,
                  "give 1 for a similar pair and 0 for another");
    double* squared = device.overwrite<double>(squared_);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *a = device.read<T>(bottom[0]->data), *b = device.read<T>(bottom[1]->data);
      for_each_position(device, pairs_, kElementGrain, SquaredDistance<T>{pairs_, a, b, squared});
      sum(device, pairs_.outer, kElementGrain, pair(device), 0.5 / items(),
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
      for_each_position(device, pairs_, kElementGrain,
                        PairGradient<T>{pairs_, pair(device), seed.template over<double>(items()),
                                        device.read<T>(bottom[0]->data),
                                        device.read<T>(bottom[1]->data), gradient(0), gradient(1)});
    });
  }

 protected:
  // Distances and labels are kept here.
  BackwardReads reference_backward_reads() const override { return {{0, 1}, false}; }

 private:
  double items() const { return static_cast<double>(std::max<int64_t>(pairs_.outer, 1)); }
  Pair pair(const ComputeDevice& device) const {
    return {margin_, legacy_, device.read<double>(squared_),
            device.read<int32_t>(similar_.classes())};
  }

  double margin_;
  bool legacy_;
  AxisSplit pairs_;                       // (N, values of an item)
  Labels similar_;                        // one a pair
  Tensor squared_{Shape{0}, DType::f64};  // distances, one a pair
};

}  // namespace

void register_contrastive_loss(Registry& registry) {
  add_two_sided<ContrastiveLossLayer>(registry, "ContrastiveLoss");
}

}  // namespace crema
