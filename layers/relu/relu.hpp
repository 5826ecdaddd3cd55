// ReLU: y = max(x, 0) + negative_slope * min(x, 0). See README.md.
#pragma once

#include "backend/pointwise.hpp"
#include "layers/relu/relu_math.hpp"

namespace crema {

/// For negative_slope >= 0.
class ReLULayer : public PointwiseLayer<ReLUMath> {
 public:
  ReLULayer(const LayerParameter& param, Context& context);
  std::optional<Activation> activation() const override;
};

/// For negative_slope < 0, which nothing in front of it can take over.
class NegativeSlopeReLULayer : public PointwiseLayer<NegativeSlopeReLUMath> {
 public:
  NegativeSlopeReLULayer(const LayerParameter& param, Context& context);
};

}  // namespace crema
