// Vectors of 16 bytes of memory, as passes over channels read and write them (channel_blocks.hpp),
// and the values in them. Values of 16 bits are computed in float (Wide, core/convert.hpp).
//
// Rounding is that of convert_value(), but for the payload of NaNs on devices.
#pragma once

#include <cstring>

#include "core/convert.hpp"

namespace crema {

struct alignas(16) VectorWords {
  uint32_t words[4];
};

/// Values of type S in a vector.
template <class S>
inline constexpr int kVector = static_cast<int>(sizeof(VectorWords) / sizeof(S));

/// The address is a multiple of 16.
CREMA_FUNCTOR VectorWords load_words(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const VectorWords*>(from);
#else
  VectorWords result;  // the memory holds values of another type
  std::memcpy(&result, from, sizeof(result));
  return result;
#endif
}
CREMA_FUNCTOR void store_words(const VectorWords& words, void* to) {
#ifdef __CUDA_ARCH__
  *static_cast<VectorWords*>(to) = words;
#else
  std::memcpy(to, &words, sizeof(words));
#endif
}

/// A value of memory as one to compute with.
template <class S>
CREMA_FUNCTOR Wide<S> wide_value(S value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<S, float16>) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
  }
#endif
  return convert_value<Wide<S>>(value);
}

/// Two values as they lie in a word of memory, the first one below.
template <class S>
CREMA_FUNCTOR uint32_t word_of(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t word;
  if constexpr (std::is_same_v<S, bfloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
#else
  return convert_value<S>(first).bits | uint32_t{convert_value<S>(second).bits} << 16;
#endif
}

/// A computed value as one of memory.
template <class S>
CREMA_FUNCTOR S stored_value(Wide<S> value) {
  if constexpr (sizeof(S) == 2) {
    S result;
    result.bits = static_cast<uint16_t>(word_of<S>(value, 0));
    return result;
  } else {
    return value;
  }
}

template <class S>
CREMA_FUNCTOR void unpack(const VectorWords& from, Wide<S> (&to)[kVector<S>]) {
  for (int k = 0; k < kVector<S>; ++k) {
    if constexpr (sizeof(S) == 8) {
      const uint64_t low = from.words[2 * k], high = from.words[2 * k + 1];
      to[k] = std::bit_cast<double>(low | high << 32);
    } else if constexpr (sizeof(S) == 4) {
      to[k] = std::bit_cast<float>(from.words[k]);
    } else if constexpr (std::is_same_v<S, bfloat16>) {
      const uint32_t word = from.words[k / 2];
      to[k] = std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
      S value;
      value.bits = static_cast<uint16_t>(from.words[k / 2] >> (16 * (k % 2)));
      to[k] = wide_value(value);
    }
  }
}

template <class S>
CREMA_FUNCTOR VectorWords pack(const Wide<S> (&from)[kVector<S>]) {
  VectorWords result;
  if constexpr (sizeof(S) == 8) {
    for (int k = 0; k < kVector<S>; ++k) {
      const auto bits = std::bit_cast<uint64_t>(from[k]);
      result.words[2 * k] = static_cast<uint32_t>(bits);
      result.words[2 * k + 1] = static_cast<uint32_t>(bits >> 32);
    }
  } else if constexpr (sizeof(S) == 4) {
    for (int k = 0; k < kVector<S>; ++k) result.words[k] = std::bit_cast<uint32_t>(from[k]);
  } else {
    for (int k = 0; k < kVector<S>; k += 2) {
      result.words[k / 2] = word_of<S>(from[k], from[k + 1]);
    }
  }
  return result;
}

CREMA_FUNCTOR bool is_aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % sizeof(VectorWords) == 0;
}

/// a * b + c, rounded once: the same bits in every pass that computes it again.
CREMA_FUNCTOR float multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
CREMA_FUNCTOR double multiply_add(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

}  // namespace crema
