#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/softmax/softmax.cuh"
#include "layers/softmax/softmax.hpp"

namespace crema {
namespace {

class SoftmaxCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = bottom[0]->data.template device<T>(backend);
      T* y = top[0]->data.template device_overwrite<T>(backend);
      cuda_softmax(backend, SoftmaxForward<T>{layout(layer), x, y, nullptr});
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* dy = top[0]->diff.template device<T>(backend);
      const T* y = top[0]->data.template device<T>(backend);
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      cuda_softmax(backend, SoftmaxBackward<T>{layout(layer), dy, y, dx});
    });
  }

 private:
  static SoftmaxLayout layout(const Layer& layer) {
    const auto& softmax = static_cast<const SoftmaxLayer&>(layer);
    return {softmax.outer(), softmax.classes(), softmax.inner()};
  }
};

}  // namespace

void register_softmax_cuda(Registry& registry);

void register_softmax_cuda(Registry& registry) {
  registry.add_engine<SoftmaxCuda>("Softmax", "cuda", DeviceType::cuda);
}

}  // namespace crema
