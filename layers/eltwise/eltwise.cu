#include "backend/cuda/device_passes.cuh"
#include "layers/eltwise/eltwise_passes.hpp"

namespace crema {

void register_eltwise_cuda(Registry& registry) {
  add_cuda_passes<EltwiseLayer, eltwise_passes::Passes>(registry, "Eltwise");
}

}  // namespace crema
