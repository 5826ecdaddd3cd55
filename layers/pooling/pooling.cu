#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/pooling/pooling.hpp"

namespace crema {
namespace {

/// Own kernels, since cuDNN's windows end differently: published ones are rounded up.
class PoolingCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }

  void prepare(Layer& layer, const Option&, Blobs /*bottom*/, Blobs top) override {
    if (remembers(layer)) choice_.reshape(top[0]->shape());
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    const PoolingLayer& pooling = of(layer);
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* in = bottom[0]->data.template device<T>(backend);
      T* out = top[0]->data.template device_overwrite<T>(backend);
      int32_t* choice = remembers(layer) ? choice_.device_overwrite<int32_t>(backend) : nullptr;
      T* mask = top.size() > 1 ? top[1]->data.template device_overwrite<T>(backend) : nullptr;
      cuda_for_each(backend, top[0]->count(),
                    PoolingForward<T>{pooling.windows(), pooling.method(), pooling.rectifies(),
                                      pooling.samples(), pooling.chance(), in, out, choice, mask});
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* dy = top[0]->diff.template device<T>(backend);
      const T* in =
          backward_reads(layer).bottom_data ? bottom[0]->data.template device<T>(backend) : nullptr;
      const int32_t* choice = remembers(layer) ? choice_.device<int32_t>(backend) : nullptr;
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      cuda_for_each(backend, bottom[0]->count(),
                    PoolingBackward<T>{of(layer).windows(), dy, in, choice, dx});
    });
  }

  size_t extra_bytes() const override { return choice_.bytes(); }

 private:
  static const PoolingLayer& of(const Layer& layer) {
    return static_cast<const PoolingLayer&>(layer);
  }
  static bool remembers(const Layer& layer) {
    return layer.trains() && of(layer).remembers_choice();
  }

  Tensor choice_{Shape{0}, DType::i32};  // (N, C, out_h, out_w): a place within the plane
};

}  // namespace

void register_pooling_cuda(Registry& registry);

void register_pooling_cuda(Registry& registry) {
  registry.add_engine<PoolingCuda>("Pooling", "cuda", DeviceType::cuda);
}

}  // namespace crema
