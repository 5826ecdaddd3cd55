#include "backend/cuda/device_passes.cuh"
#include "layers/dropout/dropout_passes.hpp"

namespace crema {

void register_dropout_cuda(Registry& registry) {
  add_cuda_passes<DropoutLayer, dropout_passes::Passes>(registry, "Dropout");
}

}  // namespace crema
