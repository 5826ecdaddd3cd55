// TanH: y = tanh(x). See README.md.
#pragma once

#include "backend/pointwise.hpp"
#include "layers/tanh/tanh_math.hpp"

namespace crema {

class TanHLayer : public PointwiseLayer<TanHMath> {
 public:
  TanHLayer(const LayerParameter& param, Context& context) : PointwiseLayer(param, context, {}) {}
  std::optional<Activation> activation() const override {
    return Activation{Activation::Kind::tanh};
  }
};

}  // namespace crema
