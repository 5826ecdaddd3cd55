#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/euclidean_loss/euclidean_loss.hpp"
#include "layers/euclidean_loss/euclidean_loss_math.hpp"

namespace crema {
namespace {

template <class T>
struct Term {
  const T* a;
  const T* b;
  __device__ double operator()(int64_t i) const { return EuclideanLossMath{}.forward(a[i], b[i]); }
};

template <class T>
struct Gradient {
  const T* a;
  const T* b;
  T scale;
  T* dx;
  __device__ void operator()(int64_t i) const {
    dx[i] = EuclideanLossMath{}.backward(a[i], b[i], scale);
  }
};

class EuclideanLossCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* a = bottom[0]->data.template device<T>(backend);
      const T* b = bottom[1]->data.template device<T>(backend);
      cuda_sum(backend, bottom[0]->count(), Term<T>{a, b}, 0.5 / static_cast<double>(items(layer)),
               top[0]->data.template device_overwrite<T>(backend));
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* a = bottom[0]->data.template device<T>(backend);
      const T* b = bottom[1]->data.template device<T>(backend);
      const T scale = top[0]->diff.template host<T>()[0] / static_cast<T>(items(layer));
      for (size_t k = 0; k < 2; ++k) {
        if (!propagate[k]) continue;
        T* dx = bottom[k]->diff.template device_overwrite<T>(backend);
        cuda_for_each(backend, bottom[0]->count(), Gradient<T>{a, b, k == 0 ? scale : -scale, dx});
      }
    });
  }

 private:
  static int64_t items(const Layer& layer) {
    return static_cast<const EuclideanLossLayer&>(layer).items();
  }
};

}  // namespace

void register_euclidean_loss_cuda(Registry& registry);

void register_euclidean_loss_cuda(Registry& registry) {
  registry.add_engine<EuclideanLossCuda>("EuclideanLoss", "cuda", DeviceType::cuda);
}

}  // namespace crema
