#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"

namespace crema {

void register_deconvolution(Registry& registry) {
  registry.add("Deconvolution", [](const LayerInit& init) {
    return std::make_unique<ConvolutionLayer>(init, ConvolutionGeometry::Kind::deconvolution);
  });
}

}  // namespace crema
