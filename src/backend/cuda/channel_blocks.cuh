// The kernels of layer_support/channel_blocks.hpp.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels.cuh"
#include "layer_support/channel_blocks.hpp"

namespace crema {

template <class Blocks>
__global__ void __launch_bounds__(ChannelGrid::kThreads, Blocks::kResident)
    phases_kernel(Blocks body) {
  extern __shared__ double phase_memory[];
  auto* const shared = reinterpret_cast<SumPair*>(phase_memory);
  const int thread = static_cast<int>(threadIdx.x);
  body.run(0, blockIdx.x, thread, shared);
  if constexpr (Blocks::kPhases > 1) {
    __syncthreads();
    body.run(1, blockIdx.x, thread, shared);
  }
  if constexpr (Blocks::kPhases > 2) {
    __syncthreads();
    body.run(2, blockIdx.x, thread, shared);
  }
}

/// How many blocks that share so many pairs a multiprocessor runs at once.
template <class Blocks>
int cuda_resident_blocks(int shared) {
  int blocks = 0;
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                 &blocks, phases_kernel<Blocks>, ChannelGrid::kThreads,
                 static_cast<size_t>(shared) * sizeof(SumPair)),
             "asking for the occupancy of a kernel");
  return std::clamp(blocks, 1, Blocks::kResident);
}

/// Runs all phases of all blocks.
template <class Blocks>
void cuda_run_phases(CudaBackend& backend, const Blocks& body) {
  const int64_t blocks = body.blocks();
  if (blocks == 0) return;
  const auto bytes = static_cast<size_t>(body.shared()) * sizeof(SumPair);
  phases_kernel<<<static_cast<unsigned>(blocks), ChannelGrid::kThreads, bytes, backend.stream()>>>(
      body);
  cuda_check(cudaGetLastError(), "launching a pass over channels");
}

}  // namespace crema
