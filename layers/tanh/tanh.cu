#include "backend/cuda/pointwise.cuh"
#include "crema/registry.hpp"
#include "layers/tanh/tanh.hpp"

namespace crema {

void register_tanh_cuda(Registry& registry);

void register_tanh_cuda(Registry& registry) {
  registry.add_engine<PointwiseCuda<TanHLayer>>("TanH", "cuda", DeviceType::cuda);
}

}  // namespace crema
