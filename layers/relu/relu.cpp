#include "layers/relu/relu.hpp"

#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {

ReLULayer::ReLULayer(const LayerParameter& param, Context& context)
    : PointwiseLayer(param, context, {param.relu_param().negative_slope()}) {}

std::optional<Activation> ReLULayer::activation() const {
  return Activation{Activation::Kind::relu, math().slope};
}

NegativeSlopeReLULayer::NegativeSlopeReLULayer(const LayerParameter& param, Context& context)
    : PointwiseLayer(param, context, {param.relu_param().negative_slope()}) {}

void register_relu(Registry& registry);

void register_relu(Registry& registry) {
  registry.add("ReLU", [](const LayerParameter& param, Context& context) -> std::unique_ptr<Layer> {
    if (param.relu_param().negative_slope() < 0) {
      return std::make_unique<NegativeSlopeReLULayer>(param, context);
    }
    return std::make_unique<ReLULayer>(param, context);
  });
}

}  // namespace crema
