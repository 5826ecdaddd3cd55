// Sigmoid: y = 1 / (1 + exp(-x)). See README.md.
#pragma once

#include "backend/pointwise.hpp"
#include "layers/sigmoid/sigmoid_math.hpp"

namespace crema {

class SigmoidLayer : public PointwiseLayer<SigmoidMath> {
 public:
  SigmoidLayer(const LayerParameter& param, Context& context)
      : PointwiseLayer(param, context, {}) {}
  std::optional<Activation> activation() const override {
    return Activation{Activation::Kind::sigmoid};
  }
};

}  // namespace crema
