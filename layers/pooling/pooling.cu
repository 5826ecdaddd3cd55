#include "backend/cuda/device_passes.cuh"
#include "layers/pooling/pooling_passes.hpp"

namespace crema {

void register_pooling_cuda(Registry& registry) {
  add_cuda_passes<PoolingLayer, pooling_passes::Passes>(registry, "Pooling");
}

}  // namespace crema
