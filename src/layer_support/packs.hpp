// Passes over packs of elements: what a device runs where each element of memory is computed by
// itself. For sources that include layer_support/passes.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "core/float_values.hpp"
#include "layer_support/passes.hpp"

#ifdef __CUDACC__
#include "backend/cuda/vectors.cuh"
#endif

namespace crema {

/// Who runs an item of a pass of teams: threads of a warp (backend/cuda/vectors.cuh), or what
/// follows. Lane `first` of `count` takes what the item sums up in steps of `count`, sum() adds up
/// one value of each lane for all of them, and the lane with `writes` stores the result. All lanes
/// call sum().
///
/// For the device of the tests, the lanes run one after the other without a result. Then the first
/// one runs again, gets the sums of all, and stores the result.
struct TeamInTurn {
  static constexpr int count = 3;
  struct Sums {
    std::vector<double> all;  // of the calls of sum(), in order
    size_t next = 0;
  };
  int first;
  bool writes;
  Sums* sums;

  template <class Body>
  static void run(const Body& body, int64_t item) {
    Sums sums;
    for (int lane = 0; lane <= count; ++lane) {
      sums.next = 0;
      body(item, TeamInTurn{lane % count, lane == count, &sums});
    }
  }
  template <class T>
  CREMA_FUNCTOR T sum(T value) const {
#ifndef __CUDA_ARCH__
    if (sums->next == sums->all.size()) sums->all.push_back(0);
    double& all = sums->all[sums->next++];
    if (!writes) all += static_cast<double>(value);
    return static_cast<T>(all);
#else
    return value;
#endif
  }
};

/// Calls body(at) for the packs of [0, count), `at` being a PackAt<T>. `vectors`: all operands are
/// aligned(). For devices alone, as are ValuesOut.
template <class T, class Body>
void for_each_pack(const ComputeDevice& device, int64_t count, bool vectors, const Body& body) {
#ifdef __CUDACC__
  if (!device.on_host()) {
    return cuda_for_each_pack<T>(cuda(*device.backend()), count, vectors, body);
  }
#endif
  require_host(device);
  queue_for_test(DeviceSide(device), [=] {
    constexpr int64_t kSize = kPackSize<T>;
    for (int64_t first = 0; first < count; first += kSize) {
      const int64_t some = std::min(kSize, count - first);
      body(PackAt<T>{first, static_cast<int>(some), vectors && some == kSize});
    }
  });
}

/// Calls body(i, team) for i in [0, count), on a device. kTeams items share a warp, their threads
/// in turn: 1 where an item's values are neighbours in memory, more where those of kTeams items
/// are.
template <int kTeams, class Body>
void for_each_team(const ComputeDevice& device, int64_t count, const Body& body) {
#ifdef __CUDACC__
  if (!device.on_host()) {
    return cuda_for_each_team<kTeams>(cuda(*device.backend()), count, body);
  }
#endif
  require_host(device);
  queue_for_test(DeviceSide(device), [=] {
    for (int64_t i = 0; i < count; ++i) TeamInTurn::run(body, i);
  });
}

}  // namespace crema
