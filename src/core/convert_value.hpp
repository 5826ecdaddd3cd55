// One value in another element type, for the CPU and CUDA.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/half.hpp"
#include "crema/layout.hpp"

namespace crema {

template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;
template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsSmallFloat<T>;

[[gnu::always_inline]] CREMA_FUNCTOR float widened(bfloat16 value) {
  return bfloat16_value(value.bits);
}
[[gnu::always_inline]] CREMA_FUNCTOR float widened(float16 value) {
  return float16_value(value.bits);
}

/// Rounds to nearest even. Integers are clamped to their range; floating point values become
/// integers by truncation, NaN becomes 0.
template <class To, class From>
[[gnu::always_inline]] CREMA_FUNCTOR To convert_value(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsSmallFloat<From>) {
    return convert_value<To>(widened(value));
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

}  // namespace crema
