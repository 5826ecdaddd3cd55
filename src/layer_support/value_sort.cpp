#include "layer_support/value_sort.hpp"

#include <algorithm>

#include "layer_support/block_choice.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

constexpr int kTileBits = 12;
constexpr int64_t kTile = int64_t{1} << kTileBits;
static_assert(kTile <= kMostShared);

/// Values in memory of the device.
struct ValuesThere {
  int64_t count;
  double* values;
  CREMA_FUNCTOR void order(int64_t i, int64_t j) const {
    const double a = values[i], b = values[j];
    if (a <= b) return;
    values[i] = b;
    values[j] = a;
  }
};

/// Calls body(count, order) with the values of tile t in lanes.shared.
template <class Lanes, class Body>
CREMA_FUNCTOR void in_tile(const Lanes& lanes, const ValuesThere& all, int64_t t,
                           const Body& body) {
  double* const own = all.values + t * kTile;
  const int64_t left = all.count - t * kTile, count = left < kTile ? left : kTile;
  for (int64_t i = lanes.first; i < count; i += lanes.count) lanes.shared[i] = own[i];
  body(count, [&](int64_t i, int64_t j) {
    const double a = lanes.shared[i], b = lanes.shared[j];
    if (a <= b) return;
    lanes.shared[i] = b;
    lanes.shared[j] = a;
  });
  lanes.wait();
  for (int64_t i = lanes.first; i < count; i += lanes.count) own[i] = lanes.shared[i];
}

struct SortTile {
  ValuesThere all;
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t t, const Lanes& lanes) const {
    in_tile(lanes, all, t,
            [&](int64_t count, const auto& order) { sort_items(lanes, count, order); });
  }
};

/// The last steps of a merge, those of pairs within a tile.
struct MergeTile {
  ValuesThere all;
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t t, const Lanes& lanes) const {
    in_tile(lanes, all, t, [&](int64_t count, const auto& order) {
      for (int distance = kTileBits - 1; distance >= 0; --distance) {
        lanes.wait();
        for (int64_t p = lanes.first; p < kTile / 2; p += lanes.count) {
          const SortedPair pair = distant_pair(p, distance);
          if (pair.second < count) order(pair.first, pair.second);
        }
      }
    });
  }
};

struct MirroredPairs {
  ValuesThere all;
  int bits;
  CREMA_FUNCTOR void operator()(int64_t p) const {
    const SortedPair pair = mirrored_pair(p, bits);
    if (pair.second < all.count) all.order(pair.first, pair.second);
  }
};
struct DistantPairs {
  ValuesThere all;
  int bits;
  CREMA_FUNCTOR void operator()(int64_t p) const {
    const SortedPair pair = distant_pair(p, bits);
    if (pair.second < all.count) all.order(pair.first, pair.second);
  }
};

}  // namespace

void sort_values(const ComputeDevice& device, int64_t count, double* values) {
  if (count < 2) return;
  const ValuesThere all{count, values};
  const int64_t tiles = (count + kTile - 1) / kTile, shared = std::min(count, kTile);
  for_each_block(device, tiles, kMostLanes, shared, SortTile{all});
  int64_t pairs = 1;
  while (2 * pairs < count) pairs *= 2;
  for (int bits = kTileBits + 1; int64_t{1} << (bits - 1) < count; ++bits) {
    for_each(device, pairs, kPassGrain, MirroredPairs{all, bits});
    for (int distance = bits - 2; distance >= kTileBits; --distance)
      for_each(device, pairs, kPassGrain, DistantPairs{all, distance});
    for_each_block(device, tiles, kMostLanes, shared, MergeTile{all});
  }
}

}  // namespace crema
