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

/// The finaliser of SplitMix64: a bijection in which every bit of the input moves half of the
/// output.
CREMA_FUNCTOR uint64_t mixed_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The key of Random(seed, stream, ...).
CREMA_FUNCTOR uint64_t key_of_stream(uint64_t seed, uint64_t stream) {
  return mixed_bits(mixed_bits(seed) ^ stream);
}

/// Block `number` of Random(seed, stream, step): its words 4 * number to 4 * number + 3.
CREMA_FUNCTOR PhiloxBlock random_block(uint64_t seed, uint64_t stream, uint64_t step,
                                       uint64_t number) {
  const uint64_t key = key_of_stream(seed, stream);
  return philox_block({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                       static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                      static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
}

}  // namespace crema
