#include "backend/cuda/pointwise.cuh"
#include "crema/registry.hpp"
#include "layers/sigmoid/sigmoid.hpp"

namespace crema {

void register_sigmoid_cuda(Registry& registry);

void register_sigmoid_cuda(Registry& registry) {
  registry.add_engine<PointwiseCuda<SigmoidLayer>>("Sigmoid", "cuda", DeviceType::cuda);
}

}  // namespace crema
