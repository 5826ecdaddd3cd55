// Arithmetic on sizes that reports overflow instead of wrapping.
#pragma once

#include <cstdint>

#include "crema/error.hpp"

namespace crema {

/// a * b for sizes that are not negative; Error naming `what` when it does not fit 64 bits.
inline int64_t checked_multiply(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error(what, ": ", a, " times ", b, " does not fit 64 bits; use smaller dimensions");
  return product;
}

/// a + b for sizes that are not negative; Error naming `what` when it does not fit 64 bits.
inline int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw Error(what, ": ", a, " plus ", b, " does not fit 64 bits; use smaller dimensions");
  return sum;
}

}  // namespace crema
