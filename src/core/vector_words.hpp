// Vectors of 16 bytes of memory, and the values that lie in them. A value of 16 bits is computed in
// float (Wide, core/convert.hpp); devices convert by instructions, two values at once where they
// are stored.
//
// On this stand core/float_values.hpp, for types known at run time, and
// layer_support/channel_vectors.hpp, for types known to the compiler.
//
// Rounding is that of convert_value(), but for the payload of NaNs on devices.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "core/convert.hpp"

namespace crema {

struct alignas(16) VectorWords {
  uint32_t words[4];
};

/// Values of type S in a vector.
template <class S>
inline constexpr int kVector = static_cast<int>(sizeof(VectorWords) / sizeof(S));

/// An address where vectors begin. Null is one.
CREMA_FUNCTOR bool is_aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % sizeof(VectorWords) == 0;
}

/// The bytes there as a Word, at whose alignment they begin.
template <class Word>
CREMA_FUNCTOR Word load_as(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const Word*>(from);
#else
  Word word;  // the memory holds values of another type
  std::memcpy(&word, from, sizeof(word));
  return word;
#endif
}
template <class Word>
CREMA_FUNCTOR void store_as(const Word& word, void* to) {
#ifdef __CUDA_ARCH__
  *static_cast<Word*>(to) = word;
#else
  std::memcpy(to, &word, sizeof(word));
#endif
}

CREMA_FUNCTOR VectorWords load_words(const void* from) { return load_as<VectorWords>(from); }
CREMA_FUNCTOR void store_words(const VectorWords& words, void* to) { store_as(words, to); }

/// What 16 bits of memory stand for, as S: bfloat16 or float16.
template <class S>
CREMA_FUNCTOR float value_of(uint32_t bits) {
  if constexpr (std::is_same_v<S, bfloat16>) {
    return std::bit_cast<float>(bits << 16);
  } else {
    static_assert(std::is_same_v<S, float16>);
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(bits)));
    return value;
#else
    return float16_value(static_cast<uint16_t>(bits));
#endif
  }
}

/// Two values of 16 bits as they lie in a word of memory, the first one below.
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

/// Value k of a vector.
template <class S>
CREMA_FUNCTOR Wide<S> value_in(const VectorWords& from, int k) {
  if constexpr (sizeof(S) == 8) {
    const uint64_t low = from.words[2 * k], high = from.words[2 * k + 1];
    return std::bit_cast<double>(low | high << 32);
  } else if constexpr (sizeof(S) == 4) {
    return std::bit_cast<float>(from.words[k]);
  } else if constexpr (std::is_same_v<S, bfloat16>) {
    const uint32_t word = from.words[k / 2];
    return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    return value_of<S>(from.words[k / 2] >> (16 * (k % 2)) & 0xffffu);
  }
}

template <class S>
CREMA_FUNCTOR void unpack(const VectorWords& from, Wide<S> (&to)[kVector<S>]) {
  for (int k = 0; k < kVector<S>; ++k) to[k] = value_in<S>(from, k);
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

}  // namespace crema
