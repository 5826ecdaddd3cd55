#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/kernels.cuh"
#include "backend/relu.hpp"

namespace crema {

template <class T>
void cuda_add_bias(CudaBackend& backend, int64_t outer, int64_t channels, int64_t inner,
                   const T* bias, std::optional<float> slope, T* y) {
  if (!bias && !slope) return;
  const ChannelView view{outer, channels, inner};
  cuda_for_each(backend, view.count(), ByPlace<AddBias<T>>{view, {bias, {slope.value_or(1)}, y}});
}

template <class T>
void cuda_bias_gradient(CudaBackend& backend, int64_t outer, int64_t channels, int64_t inner,
                        const T* dy, T beta, T* bias_diff) {
  cuda_channel_sums(backend, {outer, channels, inner}, ValueTerm<T>{dy},
                    AccumulateSum<T>{beta, bias_diff});
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
