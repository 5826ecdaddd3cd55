// Softmax of all positions on either side, for the rooms that have it inside.
#pragma once

#include "kit/passes.hpp"
#include "layers/softmax/softmax_kernels.hpp"

#ifdef __CUDACC__
#include "layers/softmax/softmax.cuh"
#endif

namespace crema {

/// As softmax_positions; pointers are the side's. `grain`: elements that are worth a thread.
template <class T>
void softmax_on(const Side& side, const AxisSplit& split, int64_t grain, const T* x, T* y,
                double* log_sum) {
#ifdef __CUDACC__
  if (side.device() != nullptr) {
    return cuda_softmax(cuda(*side.device()), SoftmaxForward<T>{split, x, y, log_sum});
  }
#endif
  static_cast<void>(side);
  parallel_for(split.positions(), grain / split.size + 1, [=](int64_t begin, int64_t end) {
    softmax_positions(split, begin, end, x, y, log_sum ? log_sum + begin : nullptr);
  });
}

/// As softmax_positions_gradient.
template <class T>
void softmax_gradient_on(const Side& side, const AxisSplit& split, int64_t grain, const T* dy,
                         const T* y, T* dx) {
#ifdef __CUDACC__
  if (side.device() != nullptr) {
    return cuda_softmax(cuda(*side.device()), SoftmaxBackward<T>{split, dy, y, dx});
  }
#endif
  static_cast<void>(side);
  parallel_for(split.positions(), grain / split.size + 1, [=](int64_t begin, int64_t end) {
    softmax_positions_gradient(split, begin, end, dy, y, dx);
  });
}

}  // namespace crema
