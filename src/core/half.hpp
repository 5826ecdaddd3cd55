// Conversion between f32 and the bits of the 16-bit floating point types, for the CPU and CUDA.
// Inlined so that loops of it are compiled for the processor's vectors (core/simd.hpp).
// Selects in place of branches, for the same reason.
#pragma once

#include <bit>
#include <cstdint>

#include "core/functor.hpp"

namespace crema {

[[gnu::always_inline]] CREMA_FUNCTOR uint16_t bfloat16_bits(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  // NaNs keep their upper payload and become quiet: rounding could carry one into infinity.
  const uint32_t quiet = word | 0x00400000u;
  const uint32_t rounded = word + 0x7fffu + ((word >> 16) & 1u);
  return static_cast<uint16_t>(((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

[[gnu::always_inline]] CREMA_FUNCTOR float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

[[gnu::always_inline]] CREMA_FUNCTOR uint16_t float16_bits(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = word & 0x7fffffffu;
  // Below 2^-14 results are subnormal: adding 0.5 lets the adder shift and round to units of 2^-24.
  const uint32_t small = magnitude < 0x38800000u ? magnitude : 0x38800000u;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(small) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and up round to infinity
  half = magnitude > 0x7f800000u ? nan : half;
  return static_cast<uint16_t>(((word >> 16) & 0x8000u) | half);
}

[[gnu::always_inline]] CREMA_FUNCTOR float float16_value(uint16_t bits) {
  const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + 0x38000000u;
  const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
  const uint32_t special = 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13);
  const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? special : finite));
}

}  // namespace crema
