#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/kernels.cuh"
#include "layers/relu/relu.hpp"

namespace crema {
namespace {

template <class T>
struct AddBias {
  ChannelView layout;
  const T* bias;  // may be null
  ReLUMath relu;
  T* y;
  __device__ void operator()(int64_t i) const {
    const T shift = bias ? bias[layout.channel_of(i)] : T{0};
    y[i] = relu.forward(y[i] + shift);
  }
};

template <class T>
struct UndoReLU {
  ReLUMath relu;
  const T* dy;
  const T* y;
  T* dx;
  __device__ void operator()(int64_t i) const { dx[i] = relu.backward(dy[i], T{0}, y[i]); }
};

template <class T>
struct Accumulate {
  T beta;
  T* sum;
  __device__ void operator()(int64_t channel, const SumPair& sums) const {
    // 0 * NaN is NaN, so what is to be overwritten is not read.
    const T before = beta == T{0} ? T{0} : beta * sum[channel];
    sum[channel] = before + static_cast<T>(sums.first);
  }
};

}  // namespace

template <class T>
void cuda_add_bias(CudaBackend& backend, int64_t outer, int64_t channels, int64_t inner,
                   const T* bias, std::optional<float> slope, T* y) {
  if (!bias && !slope) return;
  const ChannelView layout{outer, channels, inner};
  // Slope 1 is the identity.
  cuda_for_each(backend, layout.count(), AddBias<T>{layout, bias, {slope.value_or(1)}, y});
}

template <class T>
void cuda_bias_gradient(CudaBackend& backend, int64_t outer, int64_t channels, int64_t inner,
                        const T* dy, T beta, T* bias_diff) {
  cuda_channel_sums(backend, {outer, channels, inner}, ValueTerm<T>{dy},
                    Accumulate<T>{beta, bias_diff});
}

template <class T>
void cuda_undo_relu(CudaBackend& backend, int64_t count, float slope, const T* dy, const T* y,
                    T* dx) {
  cuda_for_each(backend, count, UndoReLU<T>{{slope}, dy, y, dx});
}

template void cuda_add_bias(CudaBackend&, int64_t, int64_t, int64_t, const float*,
                            std::optional<float>, float*);
template void cuda_add_bias(CudaBackend&, int64_t, int64_t, int64_t, const double*,
                            std::optional<float>, double*);
template void cuda_bias_gradient(CudaBackend&, int64_t, int64_t, int64_t, const float*, float,
                                 float*);
template void cuda_bias_gradient(CudaBackend&, int64_t, int64_t, int64_t, const double*, double,
                                 double*);
template void cuda_undo_relu(CudaBackend&, int64_t, float, const float*, const float*, float*);
template void cuda_undo_relu(CudaBackend&, int64_t, float, const double*, const double*, double*);

}  // namespace crema
