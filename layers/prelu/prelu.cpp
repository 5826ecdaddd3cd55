#include "layers/prelu/prelu.hpp"

#include "core/dispatch.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
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
  const T *dy, *x;
  CREMA_FUNCTOR SumPair operator()(int64_t i, int64_t /*channel*/) const {
    const T value = x[i];
    const double product = static_cast<double>(dy[i]) * static_cast<double>(value);
    return {value > T{0} ? 0 : product, 0};
  }
};

// Packs of devices.

template <class T>
struct ForwardPack {
  ChannelWalk walk;
  const T* slope;
  ValuesIn<T> x;
  ValuesOut<T> y;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    Pack<T> values = at.load(x);
    auto here = walk.at(at.first);
    for (int k = 0; k < Pack<T>::kSize; ++k, walk.next(here)) {
      if (values.lanes[k] < T{0}) values.lanes[k] *= slope[here.channel];
    }
    at.store(values, y);
  }
};

/// dx may be dy.
template <class T>
struct DataGradientPack {
  ChannelWalk walk;
  const T* slope;
  ValuesIn<T> dy, x;
  ValuesOut<T> dx;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    const auto raw_dy = at.fetch(dy), raw_x = at.fetch(x);
    Pack<T> g = at.value(dy, raw_dy);
    const Pack<T> values = at.value(x, raw_x);
    auto here = walk.at(at.first);
    for (int k = 0; k < Pack<T>::kSize; ++k, walk.next(here)) {
      if (!(values.lanes[k] > T{0})) g.lanes[k] *= slope[here.channel];
    }
    at.store(g, dx);
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

void PReLULayer::prepare_device(Blobs bottom, Blobs) {
  scratch_bytes_ =
      trains() ? channels::sums_scratch_bytes(context(), {view_of(bottom[0]->data)}) : 0;
}

void PReLULayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  Tensor& y = top[0]->data;
  const ChannelView view = view_of(x);
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* const slope = device.read<T>(slope_->data);
    if (!device.on_host()) {
      const ForwardPack<T> body{ChannelWalk(view), slope, values_in<T>(device, x),
                                values_out<T>(device, y)};
      return for_each_pack<T>(device, x.count(), aligned(body.x, body.y), body);
    }
    for_each(HostSide(), view, kPassGrain,
             Forward<T>{device.read<T>(x), slope, device.overwrite<T>(y)});
  });
}

void PReLULayer::run_backward(const ComputeDevice& device, Blobs top,
                              const std::vector<bool>& propagate, Blobs bottom) {
  const Tensor &x = bottom[0]->data, &dy = top[0]->diff;
  Tensor& dx = bottom[0]->diff;
  const ChannelView view = view_of(x);
  dispatch_float(dtype(), [&]<class T>(T) {
    // The sum first: dx may overwrite dy.
    if (!device.on_host()) {
      if (const auto to = channels::gradients_of<T>(device, nullptr, slope_)) {
        channels::add_sums<T>(device, {view}, {&dy, &x, nullptr, channels::Mask::negative}, to);
      }
    } else if (T* const gradient = gradient_of<T>(device, slope_)) {
      channel_sums(HostSide(), view, kPassGrain,
                   SlopeTerm<T>{device.read<T>(dy), device.read<T>(x)}, AddToGradient<T>{gradient});
    }
    if (!propagate[0]) return;
    const T* const slope = device.read<T>(slope_->data);
    if (!device.on_host()) {
      const DataGradientPack<T> body{ChannelWalk(view), slope, values_in<T>(device, dy),
                                     values_in<T>(device, x), values_out<T>(device, dx)};
      return for_each_pack<T>(device, x.count(), aligned(body.dy, body.x, body.dx), body);
    }
    for_each(
        HostSide(), view, kPassGrain,
        DataGradient<T>{device.read<T>(dy), device.read<T>(x), slope, device.overwrite<T>(dx)});
  });
}

void register_prelu(Registry& registry) { add_two_sided<PReLULayer>(registry, "PReLU"); }

}  // namespace crema
