// Scale as passes over elements (backend/device_passes.hpp): the reference, and the engines of
// devices.
#pragma once

#include "backend/device_passes.hpp"
#include "layers/scale/scale.hpp"

namespace crema {
namespace scale_passes {

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

class Passes {
 public:
  template <class Pass>
  void forward(const Pass& pass, ScaleLayer& layer, Blobs bottom, Blobs top) {
    using T = typename Pass::Element;
    pass.each(layout(layer),
              Forward<T>{pass.read(bottom[0]->data), pass.read(layer.scale_data(bottom)),
                         read_parameter(pass, layer.bias()), pass.write(top[0]->data)});
  }

  template <class Pass>
  void backward(const Pass& pass, ScaleLayer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) {
    using T = typename Pass::Element;
    const bool learned = layer.scale() != nullptr;
    const bool scale_gradient = learned ? layer.wants_scale_gradient() : propagate[1];
    const T* dy = pass.read(top[0]->diff);
    // Sums first: dx may overwrite dy.
    if (scale_gradient || layer.wants_bias_gradient()) {
      StoreGradients<T> store{gradient_of(pass, layer.bias(), layer.wants_bias_gradient()),
                              gradient_of(pass, layer.scale(), scale_gradient), learned};
      if (propagate.size() > 1 && propagate[1]) store.of_scale = pass.write(bottom[1]->diff);
      const T* x = scale_gradient ? pass.read(bottom[0]->data) : nullptr;
      pass.channel_sums(layout(layer), Terms<T>{dy, x}, store);
    }
    if (!propagate[0]) return;
    pass.each(layout(layer), DataGradient<T>{dy, pass.read(layer.scale_data(bottom)),
                                             pass.write(bottom[0]->diff)});
  }

 private:
  static ChannelView layout(const ScaleLayer& scale) {
    return {scale.outer(), scale.dim(), scale.inner()};
  }
};

}  // namespace scale_passes
}  // namespace crema
