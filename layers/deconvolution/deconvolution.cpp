#include "layers/convolution/convolution.hpp"

namespace crema {

void register_deconvolution(Registry& registry) {
  add_convolution_type(registry, "Deconvolution", ConvolutionGeometry::Kind::deconvolution);
}

}  // namespace crema
