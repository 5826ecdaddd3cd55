// Values of memory whose type S the compiler knows, as passes over channels compute with them: one
// by one here, in vectors of 16 bytes by core/vector_words.hpp.
#pragma once

#include "core/vector_words.hpp"

namespace crema {

/// A value of memory as one to compute with.
template <class S>
CREMA_FUNCTOR Wide<S> wide_value(S value) {
  if constexpr (sizeof(S) == 2) {
    return value_of<S>(value.bits);
  } else {
    return value;
  }
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
