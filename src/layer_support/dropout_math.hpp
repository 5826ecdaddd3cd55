// Dropout of one element, and the random words that decide.
#pragma once

#include "core/philox.hpp"
#include "layer_support/pass_key.hpp"

namespace crema {

/// Whether an element is dropped depends on its logical index and the key alone: not on the memory
/// format, the device or the number of threads. Element i takes the 16 bits number i % 8 of Philox
/// block i / 8. The mask is never stored: backward makes it again.
struct DropoutMath {
  RandomKey key = {};      // from (seed, layer, iteration, pass)
  uint32_t threshold = 0;  // words below it drop: ratio * 2^16, 0 in TEST
  float scale = 1;         // of what stays

  /// x -> y in forward, dy -> dx in backward.
  template <class T>
  CREMA_FUNCTOR T apply(T x, uint32_t word) const {
    return word >= threshold ? x * T(scale) : T{0};
  }
};

/// The words of eight elements.
struct DropoutWords {
  uint32_t pairs[4];

  CREMA_FUNCTOR static DropoutWords of(const RandomKey& known, int64_t block) {
    const auto number = static_cast<uint64_t>(block);
    const PhiloxBlock drawn =
        philox_block({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0},
                     known.key0, known.key1);
    return {{drawn.a, drawn.b, drawn.c, drawn.d}};
  }
  CREMA_FUNCTOR uint32_t operator[](int i) const { return pairs[i / 2] >> (i % 2 * 16) & 0xffffU; }
};

}  // namespace crema
