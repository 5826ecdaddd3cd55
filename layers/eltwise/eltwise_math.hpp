// Eltwise for one element, written once for the CPU and CUDA.
#pragma once

#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// The maximum so far, and which bottom it is of. Of equal values the first counts; NaN wins, so
/// that it is seen further on.
template <class T>
struct EltwiseMaximum {
  T value;
  uint8_t bottom = 0;

  [[gnu::always_inline]] CREMA_FUNCTOR explicit EltwiseMaximum(T first) : value(first) {}
  [[gnu::always_inline]] CREMA_FUNCTOR void add(T x, uint8_t index) {
    if (x > value || x != x) {
      value = x;
      bottom = index;
    }
  }
};

}  // namespace crema
