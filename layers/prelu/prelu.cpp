#include "layers/prelu/prelu.hpp"

#include "core/dispatch.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/sums.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Both sides of a condition are computed before it, so that the compiler needs no branch.

template <class T>
struct Forward {
  const T* x;
  const T* slope;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    const T value = x[i], scaled = slope[c] * value;
    y[i] = value < T{0} ? scaled : value;
  }
};

/// dx may be dy.
template <class T>
struct DataGradient {
  const T* dy;
  const T* x;
  const T* slope;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    const T gradient = dy[i], scaled = slope[c] * gradient;
    dx[i] = x[i] > T{0} ? gradient : scaled;
  }
};

template <class T>
struct SlopeTerm {
  const T* dy;
  const T* x;
  CREMA_FUNCTOR SumPair operator()(int64_t i, int64_t /*channel*/) const {
    const double product = static_cast<double>(dy[i]) * static_cast<double>(x[i]);
    return {x[i] > T{0} ? 0 : product, 0};
  }
};

}  // namespace

PReLULayer::PReLULayer(const LayerInit& init)
    : TwoSidedLayer(init), shared_(init.param.prelu_param().channel_shared()) {}

void PReLULayer::setup(Blobs bottom, Blobs) {
  const Shape& shape = bottom[0]->shape();
  if (!shared_ && shape.rank() < 2)
    throw Error("has one slope for each channel, axis 1, but the bottom is of shape ", shape.str(),
                "; add an axis, or set channel_shared");
  const PReLUParameter& settings = param().prelu_param();
  slope_ = &add_param(shared_ ? Shape{} : Shape{shape[1]},
                      settings.has_filler() ? Filler(settings.filler()) : Filler::constant(0.25));
}

void PReLULayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (!shared_ && (shape.rank() < 2 || shape[1] != slope_->shape()[0]))
    throw Error("bottom of shape ", shape.str(), " does not have the ", slope_->shape()[0],
                " channels at axis 1 that the slopes were made for");
  top[0]->reshape(shape);
}

Flops PReLULayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return {n, slope_->needs_gradient ? 3 * n : n};
}

bool PReLULayer::convert_weights(std::vector<Tensor>& published) const {
  return published.size() == 1 && squeeze(published[0], slope_->shape());
}

std::vector<Option> PReLULayer::reference_options(Blobs bottom, Blobs top) const {
  return without_blocks(same_format_options(bottom, top, dtype(), true));
}

ChannelView PReLULayer::view_of(const Tensor& tensor) const {
  const Shape& shape = tensor.shape();
  if (shared_) return {shape.dim_or_1(0), 1, shape.rank() > 1 ? shape.count(1) : 1};
  const int64_t inner = shape.count(2);
  if (tensor.format() == Format::channels_last) return {shape[0] * inner, shape[1], 1};
  return {shape[0], shape[1], inner};
}

void PReLULayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    for_each(device, view_of(bottom[0]->data), kPassGrain,
             Forward<T>{device.read<T>(bottom[0]->data), device.read<T>(slope_->data),
                        device.overwrite<T>(top[0]->data)});
  });
}

void PReLULayer::run_backward(const ComputeDevice& device, Blobs top,
                              const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const ChannelView view = view_of(bottom[0]->data);
    const T *dy = device.read<T>(top[0]->diff), *x = device.read<T>(bottom[0]->data);
    // The sum first: dx may overwrite dy.
    if (T* const gradient = gradient_of<T>(device, slope_)) {
      if (!device.on_host()) {
        channels::add_sums<T>(device, {view},
                              {&top[0]->diff, &bottom[0]->data, nullptr, channels::Mask::negative},
                              {.of_second = gradient});
      } else {
        channel_sums(device, view, kPassGrain, SlopeTerm<T>{dy, x}, AddToGradient<T>{gradient});
      }
    }
    if (!propagate[0]) return;
    for_each(
        device, view, kPassGrain,
        DataGradient<T>{dy, x, device.read<T>(slope_->data), device.overwrite<T>(bottom[0]->diff)});
  });
}

void register_prelu(Registry& registry) { add_two_sided<PReLULayer>(registry, "PReLU"); }

}  // namespace crema
