// Philox4x32-10, the generator of crema/random.hpp, also for loops that draw a number an element on
// the CPU (vectorized) or on CUDA.
#pragma once

#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// Four words: a counter going in, random bits coming out.
struct PhiloxBlock {
  uint32_t a, b, c, d;
};

/// Ten rounds under a 64-bit key.
[[gnu::always_inline]] CREMA_FUNCTOR PhiloxBlock philox_block(PhiloxBlock x, uint32_t key0,
                                                              uint32_t key1) {
  // Written out: a loop in here would keep the caller's from being vectorized.
  const auto round = [&]() __attribute__((always_inline)) {
    const uint64_t first = uint64_t{0xd2511f53u} * x.a;
    const uint64_t second = uint64_t{0xcd9e8d57u} * x.c;
    x = {static_cast<uint32_t>(second >> 32) ^ x.b ^ key0, static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ x.d ^ key1, static_cast<uint32_t>(first)};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  };
  round(), round(), round(), round(), round();
  round(), round(), round(), round(), round();
  return x;
}

}  // namespace crema
