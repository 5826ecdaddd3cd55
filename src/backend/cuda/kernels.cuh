// What kernels are launched and summed with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/channel_view.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "crema/layer.hpp"

namespace crema {

inline constexpr int kWarp = 32;
inline constexpr int kBlockThreads = 256;

/// Blocks for `count` independent elements: enough to fill the device, each thread then strides.
inline unsigned blocks_for(const CudaBackend& backend, int64_t count) {
  const int64_t wanted = (count + kBlockThreads - 1) / kBlockThreads;
  constexpr int kBlocksPerMultiprocessor = 8;
  const int64_t room = int64_t{backend.multiprocessors()} * kBlocksPerMultiprocessor;
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, room));
}

template <class Body>
__global__ void for_each_kernel(int64_t count, Body body) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

/// Runs body(i), a functor with a __device__ operator(), for i in [0, count).
template <class Body>
void cuda_for_each(CudaBackend& backend, int64_t count, const Body& body) {
  if (count == 0) return;
  for_each_kernel<<<blocks_for(backend, count), kBlockThreads, 0, backend.stream()>>>(count, body);
  cuda_check(cudaGetLastError(), "launching a kernel");
}

/// The sum over the warp, in every lane.
template <class T>
__device__ T warp_sum(T value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

template <class T>
__device__ T warp_max(T value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, value, offset);
    if (other > value) value = other;
  }
  return value;
}

/// A warp that shares the values of one position: see OneLane. Functors that take either are
/// compiled for the host too, which never runs them with this one.
struct WarpLanes {
  static constexpr int64_t count = kWarp;
  int64_t first;
  template <class T>
  CREMA_FUNCTOR T sum(T value) const {
#ifdef __CUDA_ARCH__
    return warp_sum(value);
#else
    return value;
#endif
  }
  template <class T>
  CREMA_FUNCTOR T max(T value) const {
#ifdef __CUDA_ARCH__
    return warp_max(value);
#else
    return value;
#endif
  }
};

/// The sum over the block of kBlockThreads threads, in thread 0. In the same order every time.
inline __device__ double block_sum(double value) {
  __shared__ double of_warp[kBlockThreads / kWarp];
  value = warp_sum(value);
  // A second call must not write before everybody has read the first one's sums.
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    value = warp_sum(threadIdx.x < kBlockThreads / kWarp ? of_warp[threadIdx.x] : 0.0);
  }
  return value;
}

template <class Term>
__global__ void partial_sum_kernel(int64_t count, Term term, double* partial) {
  double sum = 0;
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    sum += term(i);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__global__ void finish_sum_kernel(int count, const double* partial, double factor, T* result) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = static_cast<T>(sum * factor);
}

/// *result = factor * the sum of term(i) over [0, count), in double; takes the backend's scratch.
template <class T, class Term>
void cuda_sum(CudaBackend& backend, int64_t count, const Term& term, double factor, T* result) {
  const unsigned blocks = blocks_for(backend, count);
  auto* partial = static_cast<double*>(backend.scratch(blocks * sizeof(double)));
  partial_sum_kernel<<<blocks, kBlockThreads, 0, backend.stream()>>>(count, term, partial);
  finish_sum_kernel<<<1, kBlockThreads, 0, backend.stream()>>>(static_cast<int>(blocks), partial,
                                                               factor, result);
  cuda_check(cudaGetLastError(), "launching a sum");
}

template <class Term, class Finish>
__global__ void channel_sums_kernel(ChannelView layout, Term term, Finish finish) {
  for (int64_t c = blockIdx.x; c < layout.channels; c += gridDim.x) {
    SumPair sums;
    for (int64_t i = threadIdx.x; i < layout.each(); i += kBlockThreads) {
      sums += term(layout.at(c, i), c);
    }
    sums.first = block_sum(sums.first);
    sums.second = block_sum(sums.second);
    if (threadIdx.x == 0) finish(c, sums);
  }
}

/// For each channel: adds up `SumPair term(place, channel)` over its values, a block a channel,
/// and calls finish(channel, sums). Both are functors with a __device__ operator().
template <class Term, class Finish>
void cuda_channel_sums(CudaBackend& backend, const ChannelView& layout, const Term& term,
                       const Finish& finish) {
  if (layout.channels == 0) return;
  constexpr int64_t kMaximumBlocks = 65535;
  const auto blocks = static_cast<unsigned>(std::min(layout.channels, kMaximumBlocks));
  channel_sums_kernel<<<blocks, kBlockThreads, 0, backend.stream()>>>(layout, term, finish);
  cuda_check(cudaGetLastError(), "launching sums of channels");
}

}  // namespace crema
