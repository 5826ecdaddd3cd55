// Sigmoid: y = 1 / (1 + exp(-x)). See README.md.
#pragma once

#include "backend/pointwise.hpp"
#include "layers/sigmoid/sigmoid_math.hpp"

namespace crema {

class SigmoidLayer : public PointwiseLayer<SigmoidMath> {
 public:
  explicit SigmoidLayer(const LayerInit& init) : PointwiseLayer(init, {}) {}
  std::optional<TailStep> as_tail_step() const override {
    return TailStep{.activation = {Activation::Kind::sigmoid}};
  }
};

}  // namespace crema
