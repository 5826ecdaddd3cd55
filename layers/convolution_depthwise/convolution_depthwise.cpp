#include "layers/convolution/convolution.hpp"

namespace crema {

void register_convolution_depthwise(Registry& registry) {
  add_convolution_type(registry, "ConvolutionDepthwise", ConvolutionGeometry::Kind::depthwise);
}

}  // namespace crema
