// The CUDA engine of pointwise layers: the functor that the reference runs, one thread an element.
#pragma once

#include "backend/cuda/kernels.cuh"
#include "kit/options.hpp"
#include "kit/pointwise.hpp"
#include "kit/two_sided.hpp"

namespace crema {

template <class Math, class T>
struct PointwiseForward {
  Math math;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const { y[i] = math.template forward<T>(x[i]); }
};

/// x and y are dy where the mathematics does not read them.
template <class Math, class T>
struct PointwiseBackward {
  Math math;
  const T* dy;
  const T* x;
  const T* y;
  T* dx;
  __device__ void operator()(int64_t i) const {
    dx[i] = math.template backward<T>(dy[i], x[i], y[i]);
  }
};

/// `L` derives from PointwiseLayer; each element stays where it is, whatever their order.
template <class L>
class PointwiseCuda : public Engine {
  using Math = typename L::Math;

 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return without_blocks(same_format_options(bottom, top, layer.dtype(), true));
  }

  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&]<class T>(T) {
      const T* x = bottom[0]->data.template device<T>(backend);
      T* y = top[0]->data.template device_overwrite<T>(backend);
      cuda_for_each(backend, top[0]->data.storage(), PointwiseForward<Math, T>{math(layer), x, y});
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&]<class T>(T) {
      const T* dy = top[0]->diff.template device<T>(backend);
      const T* x = math(layer).reads_x() ? bottom[0]->data.template device<T>(backend) : dy;
      const T* y = math(layer).reads_y() ? top[0]->data.template device<T>(backend) : dy;
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      cuda_for_each(backend, bottom[0]->diff.storage(),
                    PointwiseBackward<Math, T>{math(layer), dy, x, y, dx});
    });
  }

 private:
  static const Math& math(const Layer& layer) { return static_cast<const L&>(layer).math(); }
};

}  // namespace crema
