// Dropout for one element, written once for the CPU and CUDA.
#pragma once

#include <cstdint>

#include "core/philox.hpp"

namespace crema {

/// Whether an element is dropped depends on its logical index and the key alone: not on the memory
/// format, the device or the number of threads. Element i takes word i % 4 of Philox block i / 4.
/// The mask is never stored: backward makes it again.
struct DropoutMath {
  uint32_t key0 = 0, key1 = 0;  // from (seed, layer, iteration, pass)
  uint32_t threshold = 0;       // words below it drop: ratio * 2^32, 0 in TEST
  float scale = 1;              // of what stays

  [[gnu::always_inline]] CREMA_FUNCTOR PhiloxBlock words(uint64_t block) const {
    return philox_block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                        key0, key1);
  }

  /// x -> y in forward, dy -> dx in backward.
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T apply(T x, uint32_t word) const {
    return word >= threshold ? x * T(scale) : T{0};
  }
};

}  // namespace crema
