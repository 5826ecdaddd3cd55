// Base of layers that compute each element from the element in its place: y = f(x).
//
// A room writes its mathematics once, as a functor `Math` (see layers/relu/relu_math.hpp):
//
//   struct Math {
//     static constexpr bool reads_x, reads_y;         // what backward uses of the forward pass
//     static constexpr bool keeps_zero;                // f(0) = 0: blocked padding stays zero
//     template <class T> CREMA_FUNCTOR T forward(T x) const;
//     template <class T> CREMA_FUNCTOR T backward(T dy, T x, T y) const;   // dx
//   };
//
// and derives its layer from PointwiseLayer<Math>, passing the functor's value. The CUDA kernel is
// the line PointwiseCuda<Layer> (backend/cuda/pointwise.cuh) in the room's .cu file.
#pragma once

#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "crema/layer.hpp"

namespace crema {

/// Elements that a piece of a pointwise loop should have at least to be worth a thread.
inline constexpr int64_t kPointwiseGrain = 16384;

template <class M>
class PointwiseLayer : public Layer {
 public:
  using Math = M;

  PointwiseLayer(const LayerInit& init, Math math) : Layer(init), math_(math) {}

  const Math& math() const { return math_; }

  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {n, n};
  }

  void forward_cpu(Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = bottom[0]->data.template host<T>();
      T* y = top[0]->data.template host_overwrite<T>();
      const Math math = math_;
      parallel_for(bottom[0]->data.storage(), kPointwiseGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = math.template forward<T>(x[i]);
      });
    });
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* dy = top[0]->diff.template host<T>();
      // What backward does not read may be gone by now: never touch it then.
      const T* x = Math::reads_x ? bottom[0]->data.template host<T>() : nullptr;
      const T* y = Math::reads_y ? top[0]->data.template host<T>() : nullptr;
      T* dx = bottom[0]->diff.template host_overwrite<T>();
      const Math math = math_;
      parallel_for(bottom[0]->diff.storage(), kPointwiseGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          dx[i] = math.template backward<T>(dy[i], Math::reads_x ? x[i] : T{0},
                                            Math::reads_y ? y[i] : T{0});
        }
      });
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = Math::reads_x, .top_data = Math::reads_y};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return same_format_options(bottom, top, dtype(), Math::keeps_zero);
  }

 private:
  Math math_;
};

}  // namespace crema
