// Passes over elements. A pass is a functor that runs on the threads of the host and, if nvcc
// compiles the file, as a kernel. rooms.cmake compiles the files under layers/ that include this
// one with nvcc.
//
// The argument of a functor is an index. Its operator() is declared CREMA_FUNCTOR
// (core/functor.hpp), and its pointers are those of the side. `grain` is the smallest number of
// indices for which a further thread is worthwhile.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include "core/axis_split.hpp"
#include "core/device.hpp"
#include "core/functor.hpp"
#include "core/parallel.hpp"
#include "core/side.hpp"

#ifdef __CUDACC__
#include "backend/cuda/kernels.cuh"
#endif

namespace crema {

/// Loops on the host cannot follow pointers into the memory of a device, unless it is a test's.
inline void require_host(const Side& side) {
  if (side.device() != nullptr && !side.device()->host_can_read())
    throw Error("runs on the host only; its source was not compiled by nvcc");
}

/// Calls body(i) for i in [0, count).
template <class Body>
void for_each(const Side& side, int64_t count, int64_t grain, const Body& body) {
#ifdef __CUDACC__
  if (side.device() != nullptr) return cuda_for_each(cuda(*side.device()), count, body);
#endif
  require_host(side);
  parallel_for(count, grain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

#ifdef __CUDACC__
namespace passes_detail {

template <class Body>
__global__ void warp_kernel(int64_t count, Body body) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x / kWarp;
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const WarpLanes lanes{threadIdx.x % kWarp};
  for (int64_t i = first; i < count; i += stride) body(i, lanes);
}

}  // namespace passes_detail
#endif

/// Runs a body over all positions of the split: body.on_host(begin, end) for parts of them on the
/// host; on the device body(i, lanes) for each, where `lanes` are a OneLane or a WarpLanes.
template <class Body>
void for_each_position(const Side& side, const AxisSplit& split, int64_t grain, const Body& body) {
  const int64_t positions = split.positions();
#ifdef __CUDACC__
  if (side.device() != nullptr) {
    CudaBackend& backend = cuda(*side.device());
    // Neighbouring threads read neighbouring elements when each takes a position; where few
    // positions lie side by side, a warp shares one.
    if (positions == 0 || split.inner >= kWarp) return cuda_for_each(backend, positions, body);
    passes_detail::
        warp_kernel<<<blocks_for(backend, positions * kWarp), kBlockThreads, 0, backend.stream()>>>(
            positions, body);
    return cuda_check(cudaGetLastError(), "launching a pass over positions");
  }
#endif
  require_host(side);
  if (side.device() != nullptr) {
    for (int64_t i = 0; i < positions; ++i) body(i, OneLane());
    return;
  }
  parallel_for(positions, grain / split.size + 1,
               [=](int64_t begin, int64_t end) { body.on_host(begin, end); });
}

/// The sum of term(i) over [begin, end): eight sums in turn, since each addition to one has to wait
/// for the last.
template <class Term>
double sum_of_piece(int64_t begin, int64_t end, const Term& term) {
  constexpr int64_t kSums = 8;
  std::array<double, kSums> sums{};
  int64_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    for (int64_t k = 0; k < kSums; ++k) sums[static_cast<size_t>(k)] += term(i + k);
  }
  for (; i < end; ++i) sums[static_cast<size_t>((i - begin) % kSums)] += term(i);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// *result = factor * the sum of term(i) over [0, count), computed in double. The order of the
/// terms depends on count and grain only, not on the number of threads.
template <class T, class Term>
void sum(const Side& side, int64_t count, int64_t grain, const Term& term, double factor,
         T* result) {
#ifdef __CUDACC__
  if (side.device() != nullptr) return cuda_sum(cuda(*side.device()), count, term, factor, result);
#endif
  require_host(side);
  constexpr int64_t kMostChunks = 512;
  std::array<double, kMostChunks> partial;
  const int64_t chunk = std::max((count + kMostChunks - 1) / kMostChunks, (grain + 3) / 4);
  const int64_t chunks = (count + chunk - 1) / chunk;
  parallel_for(chunks, grain / chunk, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      partial[static_cast<size_t>(c)] =
          sum_of_piece(c * chunk, std::min(count, (c + 1) * chunk), term);
    }
  });
  *result =
      static_cast<T>(factor * std::accumulate(partial.begin(), partial.begin() + chunks, 0.0));
}

}  // namespace crema
