// What kernels are launched and summed with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

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

/// Memory seen as (outer, channels, inner).
struct CudaChannels {
  int64_t outer = 1, channels = 1, inner = 1;

  __host__ __device__ int64_t each() const { return outer * inner; }
  __host__ __device__ int64_t count() const { return outer * channels * inner; }
  /// Place of value i of [0, each()) of channel c.
  __device__ int64_t at(int64_t c, int64_t i) const {
    return (i / inner * channels + c) * inner + i % inner;
  }
  __device__ int64_t channel_of(int64_t place) const { return place / inner % channels; }
};

/// Two sums of a channel.
struct CudaPair {
  double first = 0, second = 0;
};

/// Term for cuda_channel_sums: the value itself.
template <class T>
struct CudaValue {
  const T* x;
  __device__ CudaPair operator()(int64_t place, int64_t /*channel*/) const {
    return {static_cast<double>(x[place]), 0};
  }
};

template <class Term, class Finish>
__global__ void channel_sums_kernel(CudaChannels layout, Term term, Finish finish) {
  for (int64_t c = blockIdx.x; c < layout.channels; c += gridDim.x) {
    CudaPair sums;
    for (int64_t i = threadIdx.x; i < layout.each(); i += kBlockThreads) {
      const CudaPair added = term(layout.at(c, i), c);
      sums.first += added.first;
      sums.second += added.second;
    }
    sums.first = block_sum(sums.first);
    sums.second = block_sum(sums.second);
    if (threadIdx.x == 0) finish(c, sums);
  }
}

/// For each channel: adds up `CudaPair term(place, channel)` over its values, a block a channel,
/// and calls finish(channel, sums). Both are functors with a __device__ operator().
template <class Term, class Finish>
void cuda_channel_sums(CudaBackend& backend, const CudaChannels& layout, const Term& term,
                       const Finish& finish) {
  if (layout.channels == 0) return;
  constexpr int64_t kMaximumBlocks = 65535;
  const auto blocks = static_cast<unsigned>(std::min(layout.channels, kMaximumBlocks));
  channel_sums_kernel<<<blocks, kBlockThreads, 0, backend.stream()>>>(layout, term, finish);
  cuda_check(cudaGetLastError(), "launching sums of channels");
}

/// What engines of one kernel offer: {contiguous}, and channels_last where the layer is indifferent
/// to the order of elements.
inline std::vector<Option> cuda_options(const Layer& layer, Blobs bottom, Blobs top,
                                        bool any_order) {
  std::vector<Option> options = {uniform_option(bottom, top, layer.dtype())};
  const bool has_order = std::any_of(bottom.begin(), bottom.end(),
                                     [](const Blob* blob) { return blob->shape().rank() >= 3; });
  if (any_order && has_order) {
    options.push_back(
        uniform_option(bottom, top, layer.dtype(), Format::channels_last, Format::channels_last));
  }
  return options;
}

}  // namespace crema
