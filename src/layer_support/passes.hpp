// Passes over elements. A pass is a functor that runs on the threads of the host and, if nvcc
// compiles the file, as a kernel.
//
// In a build with CUDA, nvcc compiles the sources of layers/ and src/layer_support whose own text
// includes this file (crema_passes_for_cuda in scripts/cmake/CremaRooms.cmake). A header that calls
// these functions is for such sources alone. A class that other sources see declares its passes,
// and such a source defines them: of two copies of an inline function, the linker may take the one
// that runs on the host only.
//
// The operator() of a functor is declared CREMA_FUNCTOR (core/functor.hpp), and its pointers are
// those of the device. Each function says what its functors are called with. `grain` is the
// smallest number of indices for which a further thread is worthwhile. `device` is a ComputeDevice,
// or one of its sides (layer_support/sides.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "backend/channel_view.hpp"
#include "core/axis_split.hpp"
#include "core/device.hpp"
#include "core/functor.hpp"
#include "core/move.hpp"
#include "core/parallel.hpp"
#include "crema/cuda_build.hpp"
#include "layer_support/require_host.hpp"
#include "layer_support/sides.hpp"
#include "layer_support/sum_of_piece.hpp"

#ifdef __CUDACC__
#include "backend/cuda/kernels.cuh"
#elif CREMA_BUILD_HAS_CUDA && !defined(CREMA_CPU_PLUGIN)
#error "nvcc compiles passes: this .cpp file has to include passes.hpp itself"
#endif

namespace crema {

/// A `grain` for bodies with some ten operations an element: less than kElementGrain, which is for
/// one.
inline constexpr int64_t kPassGrain = 4096;

/// Calls body(i) for i in [0, count). On the host, calls body.on_host(begin, end) for parts of them
/// instead if the body has it.
template <class Side, class Body>
void for_each(const Side& device, int64_t count, int64_t grain, const Body& body) {
#ifdef __CUDACC__
  if constexpr (kMayBeDevice<Side>) {
    if (!device.on_host()) return cuda_for_each(cuda(*device.backend()), count, body);
  }
#endif
  require_host(device);
  if (queued_for_test(device, [=] {
        for (int64_t i = 0; i < count; ++i) body(i);
      }))
    return;
  parallel_for(count, grain, [=](int64_t begin, int64_t end) {
    if constexpr (kMayBeHost<Side> && requires { body.on_host(begin, end); }) {
      body.on_host(begin, end);
    } else {
      for (int64_t i = begin; i < end; ++i) body(i);
    }
  });
}

/// Calls body(place, c) for all places of the view, c being the channel.
template <class Side, class Body>
void for_each(const Side& device, const ChannelView& view, int64_t grain, const Body& body) {
#ifdef __CUDACC__
  if constexpr (kMayBeDevice<Side>) {
    if (!device.on_host()) {
      return cuda_for_each(cuda(*device.backend()), view.count(), ByPlace<Body>(view, body));
    }
  }
#endif
  require_host(device);
  if (queued_for_test(device, [each = ByPlace<Body>(view, body), count = view.count()] {
        for (int64_t i = 0; i < count; ++i) each(i);
      }))
    return;
  const int64_t outer = view.outer, channels = view.channels, inner = view.inner;
  if (inner == 1 && outer < omp_get_max_threads()) {
    return parallel_for(channels, grain / std::max<int64_t>(outer, 1) + 1,
                        [=](int64_t begin, int64_t end) {
                          const Body run = body;  // see below
                          for (int64_t n = 0; n < outer; ++n) {
#pragma omp simd
                            for (int64_t c = begin; c < end; ++c) run(n * channels + c, c);
                          }
                        });
  }
  if (inner == 1) {
    return parallel_for(outer, grain / std::max<int64_t>(channels, 1) + 1,
                        [=](int64_t begin, int64_t end) {
                          // On the stack: stores of the body cannot change its pointers.
                          const Body run = body;
                          for (int64_t n = begin; n < end; ++n) {
#pragma omp simd
                            for (int64_t c = 0; c < channels; ++c) run(n * channels + c, c);
                          }
                        });
  }
  parallel_for(outer * channels, grain / std::max<int64_t>(inner, 1) + 1,
               [=](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t c = row % channels;
                   for (int64_t i = row * inner; i < (row + 1) * inner; ++i) body(i, c);
                 }
               });
}

/// For each channel c of the view: finish(c, the sum of the SumPairs term(place, c) over its
/// places). On the host, the order of the terms is that of memory.
template <class Side, class Term, class Finish>
void channel_sums(const Side& device, const ChannelView& view, int64_t grain, const Term& term,
                  const Finish& finish) {
#ifdef __CUDACC__
  if constexpr (kMayBeDevice<Side>) {
    if (!device.on_host()) {
      return cuda_channel_sums(cuda(*device.backend()), view, term, finish);
    }
  }
#endif
  require_host(device);
  if (queued_for_test(device, [=] {
        for (int64_t c = 0; c < view.channels; ++c) {
          SumPair sums;
          for (int64_t i = 0; i < view.each(); ++i) sums += term(view.at(c, i), c);
          finish(c, sums);
        }
      }))
    return;
  const int64_t outer = view.outer, channels = view.channels, inner = view.inner;
  if (inner == 1) {
    // A row at a time: neighbours in memory are of neighbouring channels.
    constexpr int64_t kTogether = 128;
    return parallel_for(
        channels, grain / std::max<int64_t>(outer, 1) + 1, [=](int64_t begin, int64_t end) {
          for (; begin < end; begin += kTogether) {
            const int64_t count = std::min(kTogether, end - begin);
            std::array<SumPair, kTogether> sums{};
            for (int64_t n = 0; n < outer; ++n) {
              for (int64_t k = 0; k < count; ++k) {
                sums[static_cast<size_t>(k)] += term(n * channels + begin + k, begin + k);
              }
            }
            for (int64_t k = 0; k < count; ++k) {
              finish(begin + k, sums[static_cast<size_t>(k)]);
            }
          }
        });
  }
  parallel_for(channels, grain / std::max<int64_t>(view.each(), 1) + 1,
               [=](int64_t begin, int64_t end) {
                 for (int64_t c = begin; c < end; ++c) {
                   SumPair sums;
                   for (int64_t n = 0; n < outer; ++n) {
                     const int64_t first = (n * channels + c) * inner;
                     for (int64_t i = first; i < first + inner; ++i) sums += term(i, c);
                   }
                   finish(c, sums);
                 }
               });
}

/// Memory of the device for `count` values, not cleared: on the host that of `on_host`, which grows
/// as needed. One at a time: on a device, a second one or a sum uses the same memory.
template <class T>
T* pass_scratch(const ComputeDevice& device, int64_t count, Tensor& on_host) {
#ifdef __CUDACC__
  if (!device.on_host()) {
    return static_cast<T*>(cuda(*device.backend()).scratch(static_cast<size_t>(count) * sizeof(T)));
  }
#endif
  require_host(device);
  if (on_host.dtype() != dtype_of<T>() || on_host.count() < count) {
    on_host = Tensor(Shape{count}, dtype_of<T>());
  }
  return on_host.overwrite<T>();
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
template <class Side, class Body>
void for_each_position(const Side& device, const AxisSplit& split, int64_t grain,
                       const Body& body) {
  const int64_t positions = split.positions();
#ifdef __CUDACC__
  if constexpr (kMayBeDevice<Side>) {
    if (!device.on_host()) {
      CudaBackend& backend = cuda(*device.backend());
      // Neighbouring threads read neighbouring elements when each takes a position; where few
      // positions lie side by side, a warp shares one.
      if (positions == 0 || split.inner >= kWarp) return cuda_for_each(backend, positions, body);
      passes_detail::warp_kernel<<<blocks_for(backend, positions * kWarp), kBlockThreads, 0,
                                   backend.stream()>>>(positions, body);
      return cuda_check(cudaGetLastError(), "launching a pass over positions");
    }
  }
#endif
  require_host(device);
  if (queued_for_test(device, [=] {
        for (int64_t i = 0; i < positions; ++i) body(i, OneLane());
      }))
    return;
  if constexpr (kMayBeHost<Side>) {
    parallel_for(positions, grain / split.size + 1,
                 [=](int64_t begin, int64_t end) { body.on_host(begin, end); });
  }
}

/// *result = factor * the sum of term(i) over [0, count), computed in double. The order of the
/// terms depends on count and grain only, not on the number of threads. On the host,
/// term.on_host(begin, end) adds up the terms of a piece if the term has it.
template <class Side, class T, class Term>
void sum(const Side& device, int64_t count, int64_t grain, const Term& term, double factor,
         T* result) {
#ifdef __CUDACC__
  if constexpr (kMayBeDevice<Side>) {
    if (!device.on_host()) return cuda_sum(cuda(*device.backend()), count, term, factor, result);
  }
#endif
  require_host(device);
  constexpr int64_t kMostChunks = 512;
  std::array<double, kMostChunks> partial;
  const int64_t chunk = std::max((count + kMostChunks - 1) / kMostChunks, (grain + 3) / 4);
  const int64_t chunks = (count + chunk - 1) / chunk;
  if (queued_for_test(device, [=] {
        double all = 0;
        for (int64_t first = 0; first < count; first += chunk)
          all += sum_of_piece(first, std::min(count, first + chunk), term);
        *result = static_cast<T>(factor * all);
      }))
    return;
  parallel_for(chunks, grain / chunk, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t first = c * chunk, last = std::min(count, first + chunk);
      double& piece = partial[static_cast<size_t>(c)];
      if constexpr (kMayBeHost<Side> && requires { term.on_host(first, last); }) {
        piece = term.on_host(first, last);
      } else {
        piece = sum_of_piece(first, last, term);
      }
    }
  });
  *result =
      static_cast<T>(factor * std::accumulate(partial.begin(), partial.begin() + chunks, 0.0));
}

}  // namespace crema
