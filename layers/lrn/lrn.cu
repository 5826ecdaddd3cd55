#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/lrn/lrn.hpp"

namespace crema {
namespace {

/// Lines of channels, or planes of one channel, that normalize by themselves.
struct Patches {
  int64_t height = 1, width = 1;  // of one patch
  int64_t step = 1;               // elements between neighbours along x
  int64_t reach_y = 0, reach_x = 0;

  Patches(const LRNSettings& settings, const Shape& shape) {
    reach_x = settings.reach;
    if (settings.across_channels) {
      width = shape[1];
      step = shape.count(2);
    } else {
      reach_y = settings.reach;
      height = shape[2];
      width = shape[3];
    }
  }

  /// Calls body with the places of all neighbours of place i, itself included.
  template <class Body>
  __device__ void around(int64_t i, const Body& body) const {
    const int64_t u = i / step % width, v = i / (step * width) % height;
    const int64_t low_u = u < reach_x ? -u : -reach_x, low_v = v < reach_y ? -v : -reach_y;
    const int64_t room_u = width - 1 - u, room_v = height - 1 - v;
    const int64_t high_u = room_u < reach_x ? room_u : reach_x;
    const int64_t high_v = room_v < reach_y ? room_v : reach_y;
    for (int64_t dv = low_v; dv <= high_v; ++dv) {
      for (int64_t du = low_u; du <= high_u; ++du) body(i + (dv * width + du) * step);
    }
  }
};

/// scale = k + weight * (sum of x^2 around).
template <class T>
struct Scale {
  Patches patches;
  T k, weight, beta;
  const T* x;

  Scale(const LRNSettings& settings, const Tensor& bottom, const T* values)
      : patches(settings, bottom.shape()),
        k(static_cast<T>(settings.k)),
        weight(static_cast<T>(settings.weight)),
        beta(static_cast<T>(settings.beta)),
        x(values) {}

  __device__ T at(int64_t i) const {
    T sum = 0;
    patches.around(i, [&](int64_t j) { sum += x[j] * x[j]; });
    return k + weight * sum;
  }
};

template <class T>
struct Forward {
  Scale<T> scale;
  T* y;
  __device__ void operator()(int64_t i) const { y[i] = scale.x[i] * pow(scale.at(i), -scale.beta); }
};

/// ratio = dy x scale^(-beta-1), what a place adds to the gradients around it.
template <class T>
struct Ratio {
  Scale<T> scale;
  const T* dy;
  T* ratio;
  __device__ void operator()(int64_t i) const {
    const T s = scale.at(i);
    ratio[i] = dy[i] * pow(s, -scale.beta) * scale.x[i] / s;
  }
};

/// dx = dy scale^-beta - 2 weight beta x (sum of ratio around)
template <class T>
struct Gradient {
  Scale<T> scale;
  const T* dy;
  const T* ratio;
  T* dx;
  __device__ void operator()(int64_t i) const {
    T sum = 0;
    scale.patches.around(i, [&](int64_t j) { sum += ratio[j]; });
    const T factor = 2 * scale.weight * scale.beta;
    dx[i] = dy[i] * pow(scale.at(i), -scale.beta) - factor * scale.x[i] * sum;
  }
};

class LRNCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs) override {
    ratio_bytes_ = layer.trains() ? bottom[0]->diff.bytes() : 0;
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = bottom[0]->data.template device<T>(backend);
      T* y = top[0]->data.template device_overwrite<T>(backend);
      cuda_for_each(backend, bottom[0]->count(),
                    Forward<T>{{settings(layer), bottom[0]->data, x}, y});
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = bottom[0]->data.template device<T>(backend);
      const T* dy = top[0]->diff.template device<T>(backend);
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      auto* ratio = static_cast<T*>(backend.scratch(ratio_bytes_));
      const Scale<T> scale(settings(layer), bottom[0]->data, x);
      cuda_for_each(backend, bottom[0]->count(), Ratio<T>{scale, dy, ratio});
      cuda_for_each(backend, bottom[0]->count(), Gradient<T>{scale, dy, ratio, dx});
    });
  }

  void plan_scratch(ScratchPlan& plan) const override { plan.need(kDeviceScratch, ratio_bytes_); }

 private:
  static const LRNSettings& settings(const Layer& layer) {
    return static_cast<const LRNLayer&>(layer).settings();
  }

  size_t ratio_bytes_ = 0;  // what each place adds to the gradients around it
};

}  // namespace

void register_lrn_cuda(Registry& registry);

void register_lrn_cuda(Registry& registry) {
  registry.add_engine<LRNCuda>("LRN", "cuda", DeviceType::cuda);
}

}  // namespace crema
