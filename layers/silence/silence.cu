#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/silence/silence.hpp"

namespace crema {
namespace {

class SilenceCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, true);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}
  void forward(Layer&, Blobs, Blobs) override {}

  void backward(Layer& layer, Blobs /*top*/, const std::vector<bool>& propagate,
                Blobs bottom) override {
    CudaBackend& backend = cuda(layer.context());
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (!propagate[i]) continue;
      Tensor& diff = bottom[i]->diff;
      dispatch_float(layer.dtype(), [&](auto zero) {
        backend.fill_zero(diff.device_overwrite<decltype(zero)>(backend), diff.bytes());
      });
    }
  }
};

}  // namespace

void register_silence_cuda(Registry& registry);

void register_silence_cuda(Registry& registry) {
  registry.add_engine<SilenceCuda>("Silence", "cuda", DeviceType::cuda);
}

}  // namespace crema
