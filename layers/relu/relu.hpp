// ReLU: y = max(x, 0) + negative_slope * min(x, 0). See README.md.
#pragma once

#include "backend/pointwise.hpp"
#include "layers/relu/relu_math.hpp"

namespace crema {

/// For negative_slope >= 0.
class ReLULayer : public PointwiseLayer<ReLUMath> {
 public:
  explicit ReLULayer(const LayerInit& init);
  std::optional<TailStep> as_tail_step() const override;
};

/// For negative_slope < 0, which nothing in front of it can take over.
class NegativeSlopeReLULayer : public PointwiseLayer<NegativeSlopeReLUMath> {
 public:
  explicit NegativeSlopeReLULayer(const LayerInit& init);
};

}  // namespace crema
