// DiceLoss: 1 minus the overlap of predicted and true areas. See README.md.
#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// p * t and p + t of an element, or p^2 + t^2.
template <class T>
struct Overlap {
  bool squared;
  const T *p, *t;
  CREMA_FUNCTOR double product(int64_t i) const {
    return static_cast<double>(p[i]) * static_cast<double>(t[i]);
  }
  CREMA_FUNCTOR double area(int64_t i) const {
    const double a = static_cast<double>(p[i]), b = static_cast<double>(t[i]);
    return squared ? a * a + b * b : a + b;
  }
  CREMA_FUNCTOR SumPair operator()(int64_t i, int64_t) const { return {product(i), area(i)}; }
};

template <class T>
struct Products {
  Overlap<T> of;
  CREMA_FUNCTOR double operator()(int64_t i) const { return of.product(i); }
};
template <class T>
struct Areas {
  Overlap<T> of;
  CREMA_FUNCTOR double operator()(int64_t i) const { return of.area(i); }
};

struct StorePair {
  double* sums;
  CREMA_FUNCTOR void operator()(int64_t group, const SumPair& pair) const {
    sums[2 * group] = pair.first;
    sums[2 * group + 1] = pair.second;
  }
};

/// What a group adds to the loss, before the division by the number of groups.
struct GroupLoss {
  double smooth;
  const double* sums;  // of products and of areas, by turns

  CREMA_FUNCTOR double upper(int64_t group) const { return 2 * sums[2 * group] + smooth; }
  CREMA_FUNCTOR double lower(int64_t group) const { return sums[2 * group + 1] + smooth; }
  /// 0 if there is no area: nothing is predicted, and nothing is there.
  CREMA_FUNCTOR double operator()(int64_t group) const {
    return lower(group) == 0 ? 0 : 1 - upper(group) / lower(group);
  }
};

/// The derivative by p is upper / lower^2 - t * 2 / lower; with squares the first term is times 2
/// p.
template <class T>
struct DiceGradient {
  GroupLoss loss;
  int64_t each;  // elements of a group
  SeedFactor<T, double> scale;
  const T *p, *t;  // p: null without squares
  T* dp;

  struct Line {
    T area, slope;
    CREMA_FUNCTOR T at(T t) const { return area - slope * t; }
    CREMA_FUNCTOR T at(T p, T t) const { return 2 * area * p - slope * t; }
  };
  CREMA_FUNCTOR Line line(int64_t group) const {
    const double lower = loss.lower(group);
    if (lower == 0) return {T{0}, T{0}};
    return {static_cast<T>(scale * loss.upper(group) / (lower * lower)),
            static_cast<T>(scale * 2 / lower)};
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const Line of_group = line(i / each);
    dp[i] = p ? of_group.at(p[i], t[i]) : of_group.at(t[i]);
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end;) {
      const Line of_group = line(i / each);
      const int64_t last = std::min(end, (i / each + 1) * each);
      if (p) {
#pragma omp simd
        for (int64_t k = i; k < last; ++k) dp[k] = of_group.at(p[k], t[k]);
      } else {
#pragma omp simd
        for (int64_t k = i; k < last; ++k) dp[k] = of_group.at(t[k]);
      }
      i = last;
    }
  }
};

class DiceLossLayer : public TwoSidedLayer {
 public:
  explicit DiceLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        smooth_(static_cast<double>(init.param.dice_loss_param().smooth())),
        per_channel_(init.param.dice_loss_param().per_channel()),
        squared_(init.param.dice_loss_param().squared()) {
    if (!(smooth_ >= 0 && std::isfinite(smooth_)))
      throw Error("smooth ", smooth_, " is no area; give a number from 0 on");
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  float default_loss_weight(int) const override { return 1; }
  bool can_propagate(int bottom) const override { return bottom == 0; }

  void reshape(Blobs bottom, Blobs top) override {
    compared_items(bottom);
    const Shape& shape = bottom[0]->shape();
    if (per_channel_ && shape.rank() < 2)
      throw Error("per_channel: true, but '", bottom[0]->name, "' (", shape.str(),
                  ") has no channels; give N x C x ... or remove per_channel");
    const int64_t count = shape.count(), groups = per_channel_ ? shape.count(0, 2) : 1;
    groups_ = count == 0 ? 0 : groups;
    view_ = {1, groups_, groups_ == 0 ? 0 : count / groups_};
    top[0]->reshape(Shape{});
    sums_.reshape(Shape{groups_, 2});
  }
  size_t kept_bytes() const override { return sums_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 2 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const Overlap<T> overlap{squared_, device.read<T>(bottom[0]->data),
                               device.read<T>(bottom[1]->data)};
      double* const sums = device.overwrite<double>(sums_);
      if (groups_ == 1) {
        sum(device, view_.inner, kElementGrain, Products<T>{overlap}, 1, sums);
        sum(device, view_.inner, kElementGrain, Areas<T>{overlap}, 1, sums + 1);
      } else {
        channel_sums(device, view_, kPassGrain, overlap, StorePair{sums});
      }
      sum(device, groups_, kElementGrain, GroupLoss{smooth_, sums}, 1 / divisor(),
          device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      for_each(device, view_.count(), kElementGrain,
               DiceGradient<T>{{smooth_, device.read<double>(sums_)},
                               view_.inner,
                               seed.template over<double>(divisor()),
                               squared_ ? device.read<T>(bottom[0]->data) : nullptr,
                               device.read<T>(bottom[1]->data),
                               device.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {squared_ ? IndexSet{0, 1} : IndexSet{1}, false};
  }

 private:
  double divisor() const { return static_cast<double>(std::max<int64_t>(groups_, 1)); }

  double smooth_;
  bool per_channel_, squared_;
  int64_t groups_ = 0;
  ChannelView view_;                      // (1, groups, elements of one)
  Tensor sums_{Shape{0, 2}, DType::f64};  // of products and of areas
};

}  // namespace

void register_dice_loss(Registry& registry) {
  for (const char* type : {"DiceLoss", "DiceCoefLoss"})
    add_two_sided<DiceLossLayer>(registry, type);
}

}  // namespace crema
