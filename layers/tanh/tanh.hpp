// TanH: y = tanh(x). See README.md.
#pragma once

#include "backend/pointwise.hpp"
#include "layers/tanh/tanh_math.hpp"

namespace crema {

class TanHLayer : public PointwiseLayer<TanHMath> {
 public:
  explicit TanHLayer(const LayerInit& init) : PointwiseLayer(init, {}) {}
  std::optional<TailStep> as_tail_step() const override {
    return TailStep{.activation = {Activation::Kind::tanh}};
  }
};

}  // namespace crema
