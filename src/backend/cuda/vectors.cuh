// Passes over packs of elements, in vectors of 16 bytes (core/float_values.hpp).
#pragma once

#include <algorithm>

#include "backend/cuda/kernels.cuh"
#include "core/float_values.hpp"

namespace crema {

/// Blocks of kBlockThreads threads for `threads` independent threads: no more than fit on the
/// device at once, so that all end together; each then strides.
template <auto kernel>
unsigned resident_blocks(const CudaBackend& backend, int64_t threads) {
  // Devices of one process are mostly of one kind; where they are not, the grid still serves.
  static const int each = [] {
    int blocks = 0;
    cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kBlockThreads, 0),
               "asking for the occupancy of a kernel");
    return std::max(blocks, 1);
  }();
  const int64_t wanted = (threads + kBlockThreads - 1) / kBlockThreads;
  return static_cast<unsigned>(
      std::clamp<int64_t>(wanted, 1, int64_t{backend.multiprocessors()} * each));
}

template <class T, class Body>
__global__ void pack_kernel(int64_t count, bool vectors, Body body) {
  constexpr int kSize = kPackSize<T>;
  const int64_t stride = int64_t{blockDim.x} * gridDim.x * kSize;
  int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kSize;
  for (; first < count; first += stride) {
    const int64_t left = count - first;
    const int some = left < kSize ? static_cast<int>(left) : kSize;
    body(PackAt<T>{first, some, vectors && some == kSize});
  }
}

/// Runs body(at), at being a PackAt<T>, for the packs of [0, count). `vectors`: all operands are
/// aligned().
template <class T, class Body>
void cuda_for_each_pack(CudaBackend& backend, int64_t count, bool vectors, const Body& body) {
  if (count == 0) return;
  const int64_t packs = (count + kPackSize<T> - 1) / kPackSize<T>;
  const unsigned blocks = resident_blocks<pack_kernel<T, Body>>(backend, packs);
  pack_kernel<T><<<blocks, kBlockThreads, 0, backend.stream()>>>(count, vectors, body);
  cuda_check(cudaGetLastError(), "launching a pass over packs");
}

/// A part of a warp that shares an item: every kTeams-th lane, so that lanes side by side work on
/// items side by side. See TeamInTurn (layer_support/packs.hpp).
template <int kTeams>
struct TeamOfWarp {
  static constexpr int count = kWarp / kTeams;
  int first;
  bool writes;
  template <class T>
  CREMA_FUNCTOR T sum(T value) const {
#ifdef __CUDA_ARCH__
    for (int offset = kWarp / 2; offset >= kTeams; offset /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
#endif
    return value;
  }
};

template <int kTeams, class Body>
__global__ void team_kernel(int64_t count, Body body) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t stride = int64_t{blockDim.x} * gridDim.x / kWarp * kTeams;
  int64_t base = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp * kTeams;
  for (; base < count; base += stride) {
    // All lanes of the warp take part in its sums: those without an item compute another's again.
    const int64_t item = base + lane % kTeams;
    const bool is_there = item < count;
    body(is_there ? item : count - 1, TeamOfWarp<kTeams>{lane / kTeams, is_there && lane < kTeams});
  }
}

/// Runs body(i, team) for i in [0, count), each by a kTeams-th part of a warp.
template <int kTeams, class Body>
void cuda_for_each_team(CudaBackend& backend, int64_t count, const Body& body) {
  if (count == 0) return;
  const int64_t warps = (count + kTeams - 1) / kTeams;
  const unsigned blocks = resident_blocks<team_kernel<kTeams, Body>>(backend, warps * kWarp);
  team_kernel<kTeams><<<blocks, kBlockThreads, 0, backend.stream()>>>(count, body);
  cuda_check(cudaGetLastError(), "launching a pass of teams");
}

}  // namespace crema
