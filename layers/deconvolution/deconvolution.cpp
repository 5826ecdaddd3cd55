// Deconvolution: the transposed convolution. See README.md.
#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"

namespace crema {
namespace {

class DeconvolutionLayer : public ConvolutionLayer {
 public:
  explicit DeconvolutionLayer(const LayerInit& init)
      : ConvolutionLayer(init, ConvolutionGeometry::Kind::deconvolution) {}
};

}  // namespace

void register_deconvolution(Registry& registry) {
  registry.add<DeconvolutionLayer>("Deconvolution");
}

}  // namespace crema
