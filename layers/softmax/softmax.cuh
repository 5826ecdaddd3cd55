// Softmax on the device, for the rooms that have it inside.
#pragma once

#include "backend/cuda/kernels.cuh"
#include "core/axis_split.hpp"
#include "layers/softmax/softmax_math.hpp"

namespace crema {

// Bodies for positions.

/// y and log_sum (the logarithm of the sum of exponentials, one a position) may be null.
template <class T>
struct SoftmaxForward {
  AxisSplit split;
  const T* x;
  T* y;
  double* log_sum;

  __device__ void operator()(int64_t i) const {
    const int64_t at = split.at(i);
    const double sum = softmax_forward(x + at, y ? y + at : nullptr, split.size, split.inner);
    if (log_sum) log_sum[i] = sum;
  }

  /// A warp's; y may be x, as each lane reads what it writes.
  __device__ void warp(int64_t i, int lane) const {
    const int64_t at = split.at(i);
    T largest = x[at];
    for (int64_t c = lane; c < split.size; c += kWarp) {
      const T value = x[at + c * split.inner];
      if (value > largest) largest = value;
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      const T other = __shfl_xor_sync(0xffffffffu, largest, offset);
      if (other > largest) largest = other;
    }
    double sum = 0;
    for (int64_t c = lane; c < split.size; c += kWarp) {
      sum += static_cast<double>(std::exp(x[at + c * split.inner] - largest));
    }
    sum = warp_sum(sum);
    const T scale = static_cast<T>(1 / sum);
    for (int64_t c = lane; y && c < split.size; c += kWarp) {
      const int64_t place = at + c * split.inner;
      y[place] = std::exp(x[place] - largest) * scale;
    }
    if (log_sum && lane == 0) log_sum[i] = static_cast<double>(largest) + std::log(sum);
  }
};

/// dx may be dy.
template <class T>
struct SoftmaxBackward {
  AxisSplit split;
  const T* dy;
  const T* y;
  T* dx;

  __device__ void operator()(int64_t i) const {
    const int64_t at = split.at(i);
    softmax_backward(dy + at, y + at, dx + at, split.size, split.inner);
  }

  __device__ void warp(int64_t i, int lane) const {
    const int64_t at = split.at(i);
    double sum = 0;
    for (int64_t c = lane; c < split.size; c += kWarp) {
      const int64_t place = at + c * split.inner;
      sum += static_cast<double>(dy[place]) * static_cast<double>(y[place]);
    }
    sum = warp_sum(sum);
    for (int64_t c = lane; c < split.size; c += kWarp) {
      const int64_t place = at + c * split.inner;
      dx[place] = y[place] * (dy[place] - static_cast<T>(sum));
    }
  }
};

template <class Body>
__global__ void softmax_warp_kernel(int64_t positions, Body body) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x / kWarp;
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (int64_t i = first; i < positions; i += stride) body.warp(i, lane);
}

/// Runs one of the bodies above for all positions.
template <class Body>
void cuda_softmax(CudaBackend& backend, const Body& body) {
  const int64_t positions = body.split.positions();
  if (positions == 0) return;
  // Neighbouring threads read neighbouring elements when each takes a position; where there are
  // few positions side by side, a warp shares one.
  if (body.split.inner >= kWarp) return cuda_for_each(backend, positions, body);
  softmax_warp_kernel<<<blocks_for(backend, positions * kWarp), kBlockThreads, 0,
                        backend.stream()>>>(positions, body);
  cuda_check(cudaGetLastError(), "launching softmax");
}

}  // namespace crema
