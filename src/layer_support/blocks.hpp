// Passes whose items are shared by the threads of a block: recursions whose steps wait for each
// other, with many states in each step. For sources that include layer_support/passes.hpp.
#pragma once

#include <algorithm>
#include <array>

#include "crema/error.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/shared_values.hpp"

namespace crema {

// Lanes are the threads that run an item: those of a block (BlockLanes), or of a team (TeamLanes).
// They have what OneLane has. `shared` is memory of the item: values of type double or float, each
// for its index. wait() lets all lanes see what each of them has written. sum() and max() combine
// one value of each lane, always in the same order; a value that is NaN may be lost in max(), but
// all lanes get the same result. All lanes have to call sum(), max() and wait().

/// The threads of a team of OpenMP, which run the items for the device of the tests.
struct TeamLanes {
  /// Not as many as the context says (core/parallel.hpp): several lanes are to share an item on
  /// any machine, and tests alone come here.
  static constexpr int kMost = 6;
  int64_t first, count;
  WatchedValues shared;
  double* values;  // (count)

  CREMA_FUNCTOR void wait() const {
#ifndef __CUDA_ARCH__
#pragma omp barrier
    shared.memory->waited(first);
#endif
  }
  CREMA_FUNCTOR double sum(double value) const {
    give(value);
    double sum = 0;
    for (int64_t lane = 0; lane < count; ++lane) sum += values[lane];
    return sum;
  }
  CREMA_FUNCTOR double max(double value) const {
    give(value);
    value = values[0];
    for (int64_t lane = 1; lane < count; ++lane) {
      if (value < values[lane]) value = values[lane];
    }
    return value;
  }

 private:
  CREMA_FUNCTOR void give(double value) const {
    wait();  // everybody has read the values of the call before
    values[first] = value;
    wait();
  }
};

/// Doubles of shared memory that an item may have on any device.
inline constexpr int64_t kMostShared = 5120;

#ifdef __CUDACC__
/// T: of the shared values.
template <class T>
struct BlockLanes {
  int64_t first, count;
  BlockValues<T> shared;

  CREMA_FUNCTOR void wait() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
  CREMA_FUNCTOR double sum(double value) const { return combine(value, Sum()); }
  CREMA_FUNCTOR double max(double value) const { return combine(value, Larger()); }

 private:
  struct Sum {
    CREMA_FUNCTOR double operator()(double a, double b) const { return a + b; }
  };
  struct Larger {
    CREMA_FUNCTOR double operator()(double a, double b) const { return a < b ? b : a; }
  };
  template <class Operation>
  CREMA_FUNCTOR double combine(double value, [[maybe_unused]] const Operation& operation) const {
#ifdef __CUDA_ARCH__
    __shared__ double of_warp[kBlockThreads / kWarp];
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    __syncthreads();  // everybody has read the values of the call before
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warp[0];
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    for (int warp = 1; warp < warps; ++warp) value = operation(value, of_warp[warp]);
#endif
    return value;
  }
};

/// ptxas merges the read of one value with one of its neighbour that a condition guards, as behind
/// an unrolled loop: shared memory ends with a whole unit of such a read.
inline constexpr int64_t kSharedUnit = 16;

template <class T, class Body>
__global__ void block_kernel(int64_t count, int64_t shared, Body body) {
  extern __shared__ __align__(kSharedUnit) unsigned char memory[];
  const BlockLanes<T> lanes{threadIdx.x, blockDim.x, {reinterpret_cast<T*>(memory), shared}};
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    body(i, lanes);
    __syncthreads();
  }
}
#endif

/// That many values of another type.
template <class T>
inline constexpr int64_t kMostSharedOf = kMostShared* int64_t{sizeof(double)} / int64_t{sizeof(T)};

/// Calls body(i, lanes) for i in [0, count). On a device, a block of about `width` threads runs an
/// item; lanes.shared are `shared` values of T. Error if they are more than kMostSharedOf<T>. The
/// device of the tests has doubles in their place.
template <class T = double, class Body>
void for_each_block(const ComputeDevice& device, int64_t count, [[maybe_unused]] int64_t width,
                    int64_t shared, const Body& body) {
  if (shared > kMostSharedOf<T>)
    throw Error("a pass of blocks has at most ", kMostSharedOf<T>, " values to share, not ",
                shared);
#ifdef __CUDACC__
  if (!device.on_host()) {
    if (count == 0) return;
    constexpr int64_t kMostBlocks = 1 << 20;
    const int64_t warps =
        std::clamp<int64_t>((width + kWarp - 1) / kWarp, 1, kBlockThreads / kWarp);
    const int64_t bytes = shared * int64_t{sizeof(T)};
    block_kernel<T><<<static_cast<unsigned>(std::min(count, kMostBlocks)),
                      static_cast<unsigned>(warps * kWarp),
                      static_cast<size_t>((bytes + kSharedUnit - 1) / kSharedUnit * kSharedUnit),
                      cuda(*device.backend()).stream()>>>(count, shared, body);
    return cuda_check(cudaGetLastError(), "launching a pass of blocks");
  }
#endif
  require_host(device);
  const auto run = [=] {
    WatchedMemory memory(shared, TeamLanes::kMost);
    std::array<double, TeamLanes::kMost> values;
#pragma omp parallel num_threads(TeamLanes::kMost)
    {
      const int64_t lane = omp_get_thread_num();
      const TeamLanes lanes{lane, omp_get_num_threads(), {&memory, lane}, values.data()};
      for (int64_t i = 0; i < count; ++i) {
        if (lane == 0) memory.forget();
        lanes.wait();
        body(i, lanes);
        lanes.wait();
      }
    }
    memory.check();
  };
  if (!queued_for_test(device, run)) run();
}

}  // namespace crema
