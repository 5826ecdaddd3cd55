#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/split/split.hpp"

namespace crema {
namespace {

class SplitCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, true);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    CudaBackend& backend = cuda(layer.context());
    for (Blob* blob : top) {
      if (!blob->data.same_memory(bottom[0]->data)) copy(backend, bottom[0]->data, blob->data);
    }
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer.context());
    if (top.size() == 1) {
      if (!bottom[0]->diff.same_memory(top[0]->diff)) {
        copy(backend, top[0]->diff, bottom[0]->diff);
      }
      return;
    }
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* so_far = top[0]->diff.template device<T>(backend);
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      for (size_t k = 1; k < top.size(); ++k) {
        const T* dy = top[k]->diff.template device<T>(backend);
        cuda_add(backend, bottom[0]->diff.storage(), so_far, dy, dx);
        so_far = dx;
      }
    });
  }

 private:
  static void copy(CudaBackend& backend, const Tensor& from, Tensor& to) {
    dispatch_float(to.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = from.device<T>(backend);
      backend.copy(to.device_overwrite<T>(backend), x, to.bytes());
    });
  }
};

}  // namespace

void register_split_cuda(Registry& registry);

void register_split_cuda(Registry& registry) {
  registry.add_engine<SplitCuda>("Split", "cuda", DeviceType::cuda);
}

}  // namespace crema
