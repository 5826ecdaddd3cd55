#include "layers/relu/relu.hpp"

#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {

ReLULayer::ReLULayer(const LayerInit& init)
    : PointwiseLayer(init, {init.param.relu_param().negative_slope()}) {}

std::optional<TailStep> ReLULayer::as_tail_step() const {
  return TailStep{.activation = {Activation::Kind::relu, math().slope}};
}

NegativeSlopeReLULayer::NegativeSlopeReLULayer(const LayerInit& init)
    : PointwiseLayer(init, {init.param.relu_param().negative_slope()}) {}

void register_relu(Registry& registry);

void register_relu(Registry& registry) {
  registry.add("ReLU", [](const LayerInit& init) -> std::unique_ptr<Layer> {
    if (init.param.relu_param().negative_slope() < 0) {
      return std::make_unique<NegativeSlopeReLULayer>(init);
    }
    return std::make_unique<ReLULayer>(init);
  });
}

}  // namespace crema
