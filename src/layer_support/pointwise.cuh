// The CUDA engine of pointwise layers: the functor that the reference runs, one thread an element.
#pragma once

#include "backend/cuda/kernels.cuh"
#include "layer_support/options.hpp"
#include "layer_support/pointwise.hpp"
#include "layer_support/two_sided.hpp"

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
class PointwiseCudaKernel : public Kernel {
  using Math = typename L::Math;

 public:
  explicit PointwiseCudaKernel(const L& layer) : Kernel(layer), layer_(layer) {}

  void forward(Blobs bottom, Blobs top) override {
    CudaBackend& backend = cuda(layer_.context());
    dispatch_float(layer_.dtype(), [&]<class T>(T) {
      const T* x = bottom[0]->data.template read<T>(&backend);
      T* y = top[0]->data.template overwrite<T>(&backend);
      cuda_for_each(backend, top[0]->data.storage(),
                    PointwiseForward<Math, T>{layer_.math(), x, y});
    });
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer_.context());
    const Math& math = layer_.math();
    dispatch_float(layer_.dtype(), [&]<class T>(T) {
      const T* dy = top[0]->diff.template read<T>(&backend);
      const T* x = math.reads_x() ? bottom[0]->data.template read<T>(&backend) : dy;
      const T* y = math.reads_y() ? top[0]->data.template read<T>(&backend) : dy;
      T* dx = bottom[0]->diff.template overwrite<T>(&backend);
      cuda_for_each(backend, bottom[0]->diff.storage(),
                    PointwiseBackward<Math, T>{math, dy, x, y, dx});
    });
  }

 private:
  const L& layer_;
};

template <class L>
class PointwiseCuda : public Engine {
 public:
  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string&) const override {
    return without_blocks(same_format_options(bottom, top, layer.dtype(), true));
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<PointwiseCudaKernel<L>>(static_cast<const L&>(layer));
  }
};

}  // namespace crema
