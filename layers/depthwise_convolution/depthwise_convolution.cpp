#include "layers/convolution/convolution.hpp"

namespace crema {

void register_depthwise_convolution(Registry& registry) {
  add_convolution_type(registry, "DepthwiseConvolution", ConvolutionGeometry::Kind::depthwise);
}

}  // namespace crema
