#include "layers/mvn/mvn.hpp"

#include "core/dispatch.hpp"
#include "layer_support/normalize.hpp"
#include "layer_support/passes.hpp"
#include "layers/mvn/deviation.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// From the sums of SquaredDeviation.
struct StoreInverse {
  double count, epsilon;
  normalize::Statistics to;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    const double variance = normalize::variance_of(sums, count, to.mean[c]);
    to.inverse_deviation[c] = mvn::inverse_of(variance, epsilon);
  }
};

struct StoreOne {
  double* inverse;
  CREMA_FUNCTOR void operator()(int64_t c) const { inverse[c] = 1; }
};

template <class T>
struct GradientTerm {
  const T* dy;
  const T* y;
  CREMA_FUNCTOR SumPair operator()(int64_t i, int64_t /*group*/) const {
    const double gradient = static_cast<double>(dy[i]);
    return {gradient, gradient * static_cast<double>(y[i])};
  }
};

struct StoreMeans {
  double count, epsilon;
  const double* inverse;
  SumPair* means;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    means[c] = mvn::means_of(sums, count, inverse[c], epsilon);
  }
};

/// dx may be dy.
template <class T>
struct DataGradient {
  const T* dy;
  const T* y;
  const double* inverse;
  const SumPair* means;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    dx[i] = static_cast<T>(inverse[c]) *
            (dy[i] - static_cast<T>(means[c].first) - y[i] * static_cast<T>(means[c].second));
  }
};

}  // namespace

MVNLayer::MVNLayer(const LayerInit& init)
    : TwoSidedLayer(init),
      normalizes_variance_(init.param.mvn_param().normalize_variance()),
      across_channels_(init.param.mvn_param().across_channels()),
      epsilon_(static_cast<double>(init.param.mvn_param().eps())) {
  if (!(epsilon_ >= 0) || !std::isfinite(epsilon_))
    throw Error("eps ", epsilon_, " is added to the deviation; set it to a number from 0 on");
}

void MVNLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  const int64_t groups = shape.dim_or_1(0) * (across_channels_ ? 1 : shape.dim_or_1(1));
  view_ = {1, groups, shape.count() / std::max<int64_t>(groups, 1)};
  top[0]->reshape(shape);
}

Flops MVNLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return normalizes_variance_ ? Flops{5 * n, 8 * n} : Flops{2 * n, 2 * n};
}

void MVNLayer::prepare_reference(Blobs, Blobs) {
  mean_.reshape(Shape{view_.channels});
  inverse_.reshape(Shape{view_.channels});
  means_.reshape(Shape{normalizes_variance_ ? view_.channels : 0, 2});
}

template <class T>
void MVNLayer::centre(const ComputeDevice& device, const T* from, bool scales, T* to) {
  const double count = static_cast<double>(view_.inner);
  const normalize::Statistics statistics{device.change<double>(mean_),
                                         device.change<double>(inverse_)};
  channel_sums(HostSide(), view_, kPassGrain, ValueTerm<T>{from},
               normalize::StoreMean{count, statistics.mean});
  if (scales) {
    channel_sums(HostSide(), view_, kPassGrain,
                 normalize::SquaredDeviation<T>{from, statistics.mean},
                 StoreInverse{count, epsilon_, statistics});
  } else {
    for_each(HostSide(), view_.channels, kPassGrain, StoreOne{statistics.inverse_deviation});
  }
  for_each(HostSide(), view_, kPassGrain,
           normalize::Forward<T>{{statistics, nullptr, nullptr, false}, from, to});
}

void MVNLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (view_.inner == 0) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host())
      return centre_on<T>(device, bottom[0]->data, normalizes_variance_, top[0]->data);
    centre(device, device.read<T>(bottom[0]->data), normalizes_variance_,
           device.overwrite<T>(top[0]->data));
  });
}

void MVNLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                            Blobs bottom) {
  if (view_.inner == 0) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return backward_on<T>(device, top, bottom);
    const T* dy = device.read<T>(top[0]->diff);
    T* dx = device.overwrite<T>(bottom[0]->diff);
    // Without the variance the layer is linear, and its own transpose.
    if (!normalizes_variance_) return centre(device, dy, false, dx);
    const T* y = device.read<T>(top[0]->data);
    const double* inverse = device.read<double>(inverse_);
    // The memory of `groups` pairs.
    auto* means = reinterpret_cast<SumPair*>(device.change<double>(means_));
    channel_sums(HostSide(), view_, kPassGrain, GradientTerm<T>{dy, y},
                 StoreMeans{static_cast<double>(view_.inner), epsilon_, inverse, means});
    for_each(HostSide(), view_, kPassGrain, DataGradient<T>{dy, y, inverse, means, dx});
  });
}

void register_mvn(Registry& registry) { add_two_sided<MVNLayer>(registry, "MVN"); }

}  // namespace crema
