#include "layers/scale/scale.hpp"

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct Forward {
  const T* x;
  const T* scale;  // this or the bias may be null
  const T* bias;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t d) const {
    y[i] = (scale ? x[i] * scale[d] : x[i]) + (bias ? bias[d] : T{0});
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

template <class T>
struct StoreGradients {
  ScaleLayer::Gradients<T> to;
  CREMA_FUNCTOR void operator()(int64_t d, const SumPair& sums) const {
    if (to.of_bias) to.of_bias[d] += static_cast<T>(sums.first);
    if (to.of_scale) to.of_scale[d] += static_cast<T>(sums.second);
  }
};

template <class T>
const T* read_or_null(const ComputeDevice& device, const Tensor* tensor) {
  return tensor != nullptr ? device.read<T>(*tensor) : nullptr;
}

Filler filler_or(bool given, const FillerParameter& filler, double otherwise) {
  return given ? Filler(filler) : Filler::constant(otherwise);
}

Shape axes_of(const Shape& shape, int first, int count) {
  return Shape(
      std::vector<int64_t>(shape.dims().begin() + first, shape.dims().begin() + first + count));
}

}  // namespace

ScaleLayer::ScaleLayer(const LayerInit& init)
    : ScaleLayer(init, [&]() -> Settings {
        const ScaleParameter& given = init.param.scale_param();
        return {true,
                given.axis(),
                given.num_axes(),
                filler_or(given.has_filler(), given.filler(), 1),
                given.bias_term(),
                filler_or(given.has_bias_filler(), given.bias_filler(), 0)};
      }()) {}

ScaleLayer::ScaleLayer(const LayerInit& init, Settings settings)
    : TwoSidedLayer(init), settings_(std::move(settings)) {
  if (settings_.num_axes < -1)
    throw Error("num_axes ", settings_.num_axes, " is below -1; give the number of axes that the ",
                operand_name(), " covers, or -1 for all from axis on");
}

void ScaleLayer::setup(Blobs bottom, Blobs) {
  const Shape& shape = bottom[0]->shape();
  const bool one_number =
      bottom.size() == 2 ? bottom[1]->shape().rank() == 0 : settings_.num_axes == 0;
  // One number for all covers no axis, so x need not have that one.
  const bool any_axis = shape.rank() == 0 || (one_number && settings_.axis >= shape.rank());
  axis_ = any_axis ? 0 : shape.canonical_axis(settings_.axis);

  if (bottom.size() == 2) {
    axes_ = bottom[1]->shape().rank();
  } else {
    axes_ = settings_.num_axes == -1 ? shape.rank() - axis_ : settings_.num_axes;
    if (axes_ > shape.rank() - axis_)
      throw Error("axis ", axis_, " and num_axes ", axes_, " reach beyond the ", shape.rank(),
                  " axes of bottom shape ", shape.str(),
                  "; lower one of them, or give num_axes: -1");
    (scales() ? scale_ : bias_) = &add_param(axes_of(shape, axis_, axes_), settings_.filler);
  }
  if (scales() && settings_.bias_term) {
    bias_ = &add_param(scale_ ? scale_->shape() : bottom[1]->shape(), settings_.bias_filler);
  }
}

void ScaleLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  const Shape& covered = learns_operand() ? operand()->shape() : bottom[1]->shape();
  if (covered.rank() != axes_ || axis_ + axes_ > shape.rank() ||
      axes_of(shape, axis_, axes_) != covered)
    throw Error(operand_name(), " of shape ", covered.str(), " does not fit axes ", axis_,
                " and on of bottom shape ", shape.str(), "; set axis to where they agree");
  if (bias_ && bias_->shape() != covered)
    throw Error("bias of shape ", bias_->shape().str(),
                " does not fit the scale, which has become ", covered.str(),
                "; the bias cannot be reshaped");
  view_ = {shape.count(0, axis_), covered.count(), shape.count(axis_ + axes_)};
  top[0]->reshape(shape);
}

const Tensor* ScaleLayer::scale_data(Blobs bottom) const {
  if (!scales()) return nullptr;
  return scale_ ? &scale_->data : &bottom[1]->data;
}

const Tensor* ScaleLayer::bias_data(Blobs bottom) const {
  if (bias_) return &bias_->data;
  return scales() ? nullptr : &bottom[1]->data;
}

Flops ScaleLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  const auto learns = [](const Parameter* parameter) {
    return parameter != nullptr && parameter->needs_gradient;
  };
  const bool by_bottom = !learns_operand() && propagates(1);
  Flops flops;
  if (scales()) flops = {n, n + (learns(scale_) || by_bottom ? 2 * n : 0)};
  if (bias_ || !scales()) flops.forward += n;
  if (learns(bias_) || (by_bottom && !scales())) flops.backward += n;
  return flops;
}

BackwardReads ScaleLayer::reference_backward_reads() const {
  // The gradient of either factor reads the other one.
  if (!scales()) return {false, false};
  const bool reads_x = scale_ ? scale_->needs_gradient : propagates(1);
  const bool reads_scale = !scale_ && propagates(0);
  if (reads_x && reads_scale) return {{0, 1}, false};
  return {reads_x ? IndexSet{0} : reads_scale ? IndexSet{1} : IndexSet(false), false};
}

std::optional<TailStep> ScaleLayer::as_tail_step() const {
  if (!is_learned_per_channel()) return std::nullopt;
  return TailStep{.kind = TailStep::Kind::affine, .scale = scale_, .bias = bias_};
}

void ScaleLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return forward_on<T>(device, bottom, top);
    for_each(
        HostSide(), view_, kPassGrain,
        Forward<T>{device.read<T>(bottom[0]->data), read_or_null<T>(device, scale_data(bottom)),
                   read_or_null<T>(device, bias_data(bottom)), device.overwrite<T>(top[0]->data)});
  });
}

void ScaleLayer::run_backward(const ComputeDevice& device, Blobs top,
                              const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return backward_on<T>(device, top, propagate, bottom);
    const T* dy = device.read<T>(top[0]->diff);
    // Sums first: dx may overwrite dy.
    const StoreGradients<T> store{gradients<T>(device, propagate, bottom)};
    if (store.to.of_scale || store.to.of_bias) {
      const T* x = store.to.of_scale ? device.read<T>(bottom[0]->data) : nullptr;
      channel_sums(HostSide(), view_, kPassGrain, Terms<T>{dy, x}, store);
    }
    if (!propagate[0]) return;
    if (!scales()) return copy(device, top[0]->diff, bottom[0]->diff);
    for_each(HostSide(), view_, kPassGrain,
             DataGradient<T>{dy, device.read<T>(*scale_data(bottom)),
                             device.overwrite<T>(bottom[0]->diff)});
  });
}

void register_scale(Registry& registry) { add_two_sided<ScaleLayer>(registry, "Scale"); }

}  // namespace crema
