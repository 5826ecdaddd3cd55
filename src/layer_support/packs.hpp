// Passes over packs of elements: what a device runs where each element of memory is computed by
// itself. For sources that include layer_support/passes.hpp.
#pragma once

#include <algorithm>

#include "core/float_values.hpp"
#include "layer_support/passes.hpp"

#ifdef __CUDACC__
#include "backend/cuda/vectors.cuh"
#endif

namespace crema {

/// Who runs an item of a pass of teams: threads of a warp, or one thread of the host. Lane `first`
/// of `count` takes what the item sums up in steps of `count`, sum() adds up one value of each lane
/// for all of them, and the lane with `writes` stores the result. All lanes call sum().
struct OneTeam {
  static constexpr int count = 1;
  int first = 0;
  bool writes = true;
  template <class T>
  CREMA_FUNCTOR T sum(T value) const {
    return value;
  }
};

/// Calls body(at) for the packs of [0, count), `at` being a PackAt<T>. `vectors`: all operands are
/// aligned().
template <class T, class Body>
void for_each_pack(const ComputeDevice& device, int64_t count, bool vectors, const Body& body) {
#ifdef __CUDACC__
  if (!device.on_host()) {
    return cuda_for_each_pack<T>(cuda(*device.backend()), count, vectors, body);
  }
#endif
  require_host(device);
  constexpr int64_t kSize = kPackSize<T>;
  if (queued_for_test(device, [=] {
        for (int64_t first = 0; first < count; first += kSize) {
          const int64_t some = std::min(kSize, count - first);
          body(PackAt<T>{first, static_cast<int>(some), vectors && some == kSize});
        }
      }))
    return;
  parallel_for((count + kSize - 1) / kSize, kPassGrain, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin * kSize; first < std::min(end * kSize, count); first += kSize) {
      const int64_t some = std::min(kSize, count - first);
      body(PackAt<T>{first, static_cast<int>(some), vectors && some == kSize});
    }
  });
}

/// Calls body(i, team) for i in [0, count). On a device kTeams items share a warp, their threads in
/// turn: 1 where an item's values are neighbours in memory, more where those of kTeams items are.
template <int kTeams, class Body>
void for_each_team(const ComputeDevice& device, int64_t count, const Body& body) {
#ifdef __CUDACC__
  if (!device.on_host()) {
    return cuda_for_each_team<kTeams>(cuda(*device.backend()), count, body);
  }
#endif
  require_host(device);
  if (queued_for_test(device, [=] {
        for (int64_t i = 0; i < count; ++i) body(i, OneTeam());
      }))
    return;
  parallel_for(count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i, OneTeam());
  });
}

}  // namespace crema
