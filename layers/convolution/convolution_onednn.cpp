#include "backend/onednn/convolution.hpp"
#include "layers/convolution/engine.hpp"

namespace crema {

void register_convolution_onednn(Registry& registry) {
  add_convolution_library(registry, std::make_unique<onednn::Convolutions>(), true);
}

}  // namespace crema
