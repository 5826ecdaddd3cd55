#include "backend/cuda/device_passes.cuh"
#include "layers/lrn/lrn_passes.hpp"

namespace crema {

void register_lrn_cuda(Registry& registry) {
  add_cuda_passes<LRNLayer, lrn_passes::Passes>(registry, "LRN");
}

}  // namespace crema
