#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"

namespace crema {

void register_depthwise_convolution(Registry& registry) {
  registry.add("DepthwiseConvolution", [](const LayerInit& init) {
    return std::make_unique<ConvolutionLayer>(init, ConvolutionGeometry::Kind::depthwise);
  });
}

}  // namespace crema
