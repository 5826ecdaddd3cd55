// The gradients of the maps that RegionLayers pool. Sources include layer_support/passes.hpp
// themselves, so that nvcc compiles them.
#pragma once

#include <algorithm>

#include "layer_support/passes.hpp"
#include "layer_support/regions.hpp"

namespace crema {

/// The gradient of one map; see sum_regions().
template <class T, class Body>
struct SumMap {
  int64_t channels, map, count;
  const Region* regions;
  Body body;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T* const to = dx + i * map;
    for (int64_t k = 0; k < map; ++k) to[k] = T{0};
    for (int64_t r = 0; r < count; ++r) {
      if (regions[r].image == i / channels) body.add(r, regions[r], i % channels, to);
    }
  }
};

/// Adds up the gradients of each map of bottom 0, in the order of the regions: calls
/// body.add(region number r, region, channel c, dx of that map). One thread at a time writes a map.
template <class T, class Body>
void sum_regions(const ComputeDevice& device, Blobs bottom, const Region* regions,
                 const Body& body) {
  const Shape& maps = bottom[0]->shape();
  T* dx = device.overwrite<T>(bottom[0]->diff);
  const int64_t count = bottom[1]->shape()[0];
  for_each(device, maps[0] * maps[1], kPassGrain / std::max<int64_t>(count, 1) + 1,
           SumMap<T, Body>{maps[1], maps[2] * maps[3], count, regions, body, dx});
}

}  // namespace crema
