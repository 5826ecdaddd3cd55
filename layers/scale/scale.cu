#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/scale/scale.hpp"

namespace crema {
namespace {

template <class T>
struct Forward {
  CudaChannels layout;
  const T* x;
  const T* scale;
  const T* bias;  // may be null
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t d = layout.channel_of(i);
    y[i] = x[i] * scale[d] + (bias ? bias[d] : T{0});
  }
};

/// dx may be dy.
template <class T>
struct DataGradient {
  CudaChannels layout;
  const T* dy;
  const T* scale;
  T* dx;
  __device__ void operator()(int64_t i) const { dx[i] = dy[i] * scale[layout.channel_of(i)]; }
};

/// First dy, second dy * x; x may be null.
template <class T>
struct Terms {
  const T* dy;
  const T* x;
  __device__ CudaPair operator()(int64_t place, int64_t /*channel*/) const {
    const double g = static_cast<double>(dy[place]);
    return {g, x ? g * static_cast<double>(x[place]) : 0};
  }
};

/// Null: not wanted. A parameter's gradient is added to, that of a bottom overwritten.
template <class T>
struct StoreGradients {
  T* of_bias;
  T* of_scale;
  bool adds;
  __device__ void operator()(int64_t d, const CudaPair& sums) const {
    if (of_bias) of_bias[d] += static_cast<T>(sums.first);
    if (of_scale) of_scale[d] = (adds ? of_scale[d] : T{0}) + static_cast<T>(sums.second);
  }
};

class ScaleCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    const ScaleLayer& scale = of(layer);
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = bottom[0]->data.template device<T>(backend);
      const T* a = scale.scale_data(bottom).template device<T>(backend);
      const T* b = scale.bias() ? scale.bias()->data.template device<T>(backend) : nullptr;
      T* y = top[0]->data.template device_overwrite<T>(backend);
      cuda_for_each(backend, bottom[0]->count(), Forward<T>{layout(scale), x, a, b, y});
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    dispatch_float(layer.dtype(), [&](auto zero) {
      backward_as<decltype(zero)>(of(layer), top, propagate, bottom);
    });
  }

 private:
  static const ScaleLayer& of(const Layer& layer) { return static_cast<const ScaleLayer&>(layer); }
  static CudaChannels layout(const ScaleLayer& scale) {
    return {scale.outer(), scale.dim(), scale.inner()};
  }

  template <class T>
  static void backward_as(const ScaleLayer& layer, Blobs top, const std::vector<bool>& propagate,
                          Blobs bottom) {
    CudaBackend& backend = cuda(layer.context());
    const bool learned = layer.scale() != nullptr;
    const bool scale_gradient = learned ? layer.wants_scale_gradient() : propagate[1];
    const T* dy = top[0]->diff.template device<T>(backend);
    // Sums first: dx may overwrite dy.
    if (scale_gradient || layer.wants_bias_gradient()) {
      const T* x = scale_gradient ? bottom[0]->data.template device<T>(backend) : nullptr;
      StoreGradients<T> store{nullptr, nullptr, learned};
      if (layer.wants_bias_gradient()) {
        store.of_bias = layer.bias()->gradient().template device_mut<T>(backend);
      }
      if (scale_gradient) {
        store.of_scale = learned ? layer.scale()->gradient().template device_mut<T>(backend)
                                 : bottom[1]->diff.template device_overwrite<T>(backend);
      }
      cuda_channel_sums(backend, layout(layer), Terms<T>{dy, x}, store);
    }
    if (!propagate[0]) return;
    const T* a = layer.scale_data(bottom).template device<T>(backend);
    T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
    cuda_for_each(backend, bottom[0]->count(), DataGradient<T>{layout(layer), dy, a, dx});
  }
};

}  // namespace

void register_scale_cuda(Registry& registry);

void register_scale_cuda(Registry& registry) {
  registry.add_engine<ScaleCuda>("Scale", "cuda", DeviceType::cuda);
}

}  // namespace crema
