#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/flatten/flatten.hpp"

namespace crema {
namespace {

class FlattenCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    copy(layer, bottom[0]->data, top[0]->data);
  }
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (propagate[0]) copy(layer, top[0]->diff, bottom[0]->diff);
  }

 private:
  static void copy(const Layer& layer, const Tensor& from, Tensor& to) {
    if (to.same_memory(from)) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = from.device<T>(backend);
      backend.copy(to.device_overwrite<T>(backend), x, to.bytes());
    });
  }
};

}  // namespace

void register_flatten_cuda(Registry& registry);

void register_flatten_cuda(Registry& registry) {
  registry.add_engine<FlattenCuda>("Flatten", "cuda", DeviceType::cuda);
}

}  // namespace crema
