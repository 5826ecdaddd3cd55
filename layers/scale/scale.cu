#include "backend/cuda/device_passes.cuh"
#include "layers/scale/scale_passes.hpp"

namespace crema {

void register_scale_cuda(Registry& registry) {
  add_cuda_passes<ScaleLayer, scale_passes::Passes>(registry, "Scale");
}

}  // namespace crema
