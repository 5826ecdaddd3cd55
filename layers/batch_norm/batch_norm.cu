#include "backend/cuda/device_passes.cuh"
#include "layers/batch_norm/batch_norm_passes.hpp"

namespace crema {

void register_batch_norm_cuda(Registry& registry) {
  add_cuda_passes<BatchNormLayer, batch_norm_passes::Passes>(registry, "BatchNorm");
}

}  // namespace crema
