#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"

namespace crema {

void register_convolution_depthwise(Registry& registry) {
  registry.add("ConvolutionDepthwise", [](const LayerInit& init) {
    return std::make_unique<ConvolutionLayer>(init, ConvolutionGeometry::Kind::depthwise);
  });
}

}  // namespace crema
