#include "layers/scale/scale.hpp"

#include "core/dispatch.hpp"
#include "kit/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct Forward {
  const T* x;
  const T* scale;
  const T* bias;  // may be null
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t d) const {
    y[i] = x[i] * scale[d] + (bias ? bias[d] : T{0});
  }
};

/// dx may be dy.
template <class T>
struct DataGradient {
  const T* dy;
  const T* scale;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t d) const { dx[i] = dy[i] * scale[d]; }
};

/// First dy, second dy * x; x may be null.
template <class T>
struct Terms {
  const T* dy;
  const T* x;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t /*channel*/) const {
    const double g = static_cast<double>(dy[place]);
    return {g, x ? g * static_cast<double>(x[place]) : 0};
  }
};

/// Null: not wanted. A parameter's gradient is added to, that of a bottom overwritten.
template <class T>
struct StoreGradients {
  T* of_bias;
  T* of_scale;
  bool adds;
  CREMA_FUNCTOR void operator()(int64_t d, const SumPair& sums) const {
    if (of_bias) of_bias[d] += static_cast<T>(sums.first);
    if (of_scale) of_scale[d] = (adds ? of_scale[d] : T{0}) + static_cast<T>(sums.second);
  }
};

Shape axes_of(const Shape& shape, int first, int count) {
  return Shape(
      std::vector<int64_t>(shape.dims().begin() + first, shape.dims().begin() + first + count));
}

}  // namespace

ScaleLayer::ScaleLayer(const LayerInit& init) : TwoSidedLayer(init) {
  if (init.param.scale_param().num_axes() < -1)
    throw Error(
        "num_axes ", init.param.scale_param().num_axes(),
        " is below -1; give the number of axes that the scale covers, or -1 for all from axis on");
}

void ScaleLayer::setup(Blobs bottom, Blobs) {
  const ScaleParameter& settings = param().scale_param();
  const Shape& shape = bottom[0]->shape();
  axis_ = shape.rank() == 0 ? 0 : shape.canonical_axis(settings.axis());

  if (bottom.size() == 2) {
    scale_axes_ = bottom[1]->shape().rank();
  } else {
    scale_axes_ = settings.num_axes() == -1 ? shape.rank() - axis_ : settings.num_axes();
    if (axis_ + scale_axes_ > shape.rank())
      throw Error("axis ", axis_, " and num_axes ", scale_axes_, " reach beyond the ", shape.rank(),
                  " axes of bottom shape ", shape.str(),
                  "; lower one of them, or give num_axes: -1");
    scale_ = &add_param(axes_of(shape, axis_, scale_axes_),
                        settings.has_filler() ? Filler(settings.filler()) : Filler::constant(1));
  }
  if (settings.bias_term()) {
    const Shape bias_shape = scale_ ? scale_->shape() : bottom[1]->shape();
    bias_ = &add_param(bias_shape, settings.has_bias_filler() ? Filler(settings.bias_filler())
                                                              : Filler::constant(0));
  }
}

void ScaleLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  const Shape& scale = scale_ ? scale_->shape() : bottom[1]->shape();
  if (scale.rank() != scale_axes_ || axis_ + scale_axes_ > shape.rank() ||
      axes_of(shape, axis_, scale_axes_) != scale)
    throw Error("scale of shape ", scale.str(), " does not fit axes ", axis_,
                " and on of bottom shape ", shape.str(), "; set axis to where they agree");
  if (bias_ && bias_->shape() != scale)
    throw Error("bias of shape ", bias_->shape().str(),
                " does not fit the scale, which has become ", scale.str(),
                "; the bias cannot be reshaped");
  view_ = {shape.count(0, axis_), scale.count(), shape.count(axis_ + scale_axes_)};
  top[0]->reshape(shape);
}

Flops ScaleLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return {bias_ ? 2 * n : n,
          n + (scale_ && !wants_scale_gradient() ? 0 : 2 * n) + (wants_bias_gradient() ? n : 0)};
}

BackwardReads ScaleLayer::reference_backward_reads() const {
  // The gradient of either factor reads the other one.
  const bool reads_x = scale_ ? wants_scale_gradient() : propagates(1);
  const bool reads_scale = !scale_ && propagates(0);
  if (reads_x && reads_scale) return {{0, 1}, false};
  return {reads_x ? Which{0} : reads_scale ? Which{1} : Which(false), false};
}

std::optional<TailStep> ScaleLayer::as_tail_step() const {
  if (!is_learned_per_channel()) return std::nullopt;
  return TailStep{.kind = TailStep::Kind::affine, .scale = scale_, .bias = bias_};
}

void ScaleLayer::run_forward(const Side& side, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const T *x = side.read<T>(bottom[0]->data), *scale = side.read<T>(scale_data(bottom));
    for_each(side, view_, kPassGrain,
             Forward<T>{x, scale, read_parameter<T>(side, bias_), side.overwrite<T>(top[0]->data)});
  });
}

void ScaleLayer::run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                              Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* dy = side.read<T>(top[0]->diff);
    // Sums first: dx may overwrite dy.
    StoreGradients<T> store{gradient_of<T>(side, bias_), gradient_of<T>(side, scale_),
                            scale_ != nullptr};
    if (!scale_ && propagate[1]) store.of_scale = side.overwrite<T>(bottom[1]->diff);
    if (store.of_scale || store.of_bias) {
      const T* x = store.of_scale ? side.read<T>(bottom[0]->data) : nullptr;
      channel_sums(side, view_, kPassGrain, Terms<T>{dy, x}, store);
    }
    if (!propagate[0]) return;
    for_each(
        side, view_, kPassGrain,
        DataGradient<T>{dy, side.read<T>(scale_data(bottom)), side.overwrite<T>(bottom[0]->diff)});
  });
}

void register_scale(Registry& registry) { add_two_sided<ScaleLayer>(registry, "Scale"); }

}  // namespace crema
