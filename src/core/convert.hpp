// Conversion between element types and memory formats: of single values, for the CPU and CUDA, and
// of whole tensors, on the host.
//
// What converts a value is inlined so that loops of it are compiled for the processor's vectors
// (core/simd.hpp). Selects stand in place of branches, for the same reason.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/functor.hpp"
#include "crema/tensor.hpp"

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

/// The type that kernels compute in where values are stored as T, which may have 16 bits.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Rounds to nearest even. Integers are clamped to their range; floating point values become
/// integers by truncation, clamped as well, NaN as 0.
template <class To, class From>
[[gnu::always_inline]] CREMA_FUNCTOR To convert_value(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, bfloat16>) {
    return convert_value<To>(bfloat16_value(value.bits));
  } else if constexpr (std::is_same_v<From, float16>) {
    return convert_value<To>(float16_value(value.bits));
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    To result;
    result.bits = bfloat16_bits(static_cast<float>(value));
    return result;
  } else if constexpr (std::is_same_v<To, float16>) {
    To result;
    result.bits = float16_bits(static_cast<float>(value));
    return result;
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<From>) {
    // As floating point, the limits of wide integers round up to what does not fit any more.
    using Limits = std::numeric_limits<To>;
    if (std::isnan(value)) return To{0};
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    if (value >= static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else {
    using Limits = std::numeric_limits<To>;
    return static_cast<To>(std::clamp<int64_t>(value, Limits::min(), Limits::max()));
  }
}

/// How elements (n, c, place) lie in memory: channels in blocks of `block`, the last one padded.
/// The contiguous format has blocks of one channel, channels_last one block of all of them.
struct ElementOrder {
  int64_t channels = 1, places = 1, block = 1;

  ElementOrder(const Shape& shape, Format format)
      : channels(shape.dim_or_1(1)), places(shape.rank() > 2 ? shape.count(2) : 1) {
    block = format == Format::channels_last ? std::max<int64_t>(channels, 1) : block_of(format);
  }

  CREMA_FUNCTOR int64_t blocks() const { return (channels + block - 1) / block; }
  CREMA_FUNCTOR int64_t index(int64_t n, int64_t c, int64_t place) const {
    return ((n * blocks() + c / block) * places + place) * block + c % block;
  }
  /// The channel of element i in memory. At or beyond `channels`: padding.
  CREMA_FUNCTOR int64_t channel_of(int64_t i) const {
    return i / (block * places) % blocks() * block + i % block;
  }
  /// Where `other` has element i, which is no padding.
  CREMA_FUNCTOR int64_t index_in(const ElementOrder& other, int64_t i) const {
    return other.index(i / (block * places * blocks()), channel_of(i), i / block % places);
  }
  /// Whether all elements lie in the same places, padding counted.
  bool same_as(const ElementOrder& other) const {
    return block == other.block || (places == 1 && blocks() * block == channels &&
                                    other.blocks() * other.block == channels);
  }
};

/// Writes to `to` (in its type and format, padding zeroed) the values of `from`, as
/// convert_value(). The two do not overlap.
void convert(const Shape& shape, DType from_dtype, Format from_format, const void* from,
             DType to_dtype, Format to_format, void* to);

/// Sets all elements to `value`, padding to zero.
void fill_elements(const Shape& shape, DType dtype, Format format, double value, void* to);

double element_as_double(DType dtype, const void* data, int64_t index);

}  // namespace crema
