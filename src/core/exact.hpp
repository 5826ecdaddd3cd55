// Integers as numbers of the net's type.
#pragma once

#include <limits>

namespace crema {

/// Whether `value` is the integer itself, and not a number that it was rounded to.
template <class Integer, class T>
bool is_exactly(T value, Integer integer) {
  // The least number above all integers of the type: converting it back is undefined.
  constexpr T kEnd = static_cast<T>(std::numeric_limits<Integer>::max() / 2 + 1) * 2;
  return value < kEnd && static_cast<Integer>(value) == integer;
}

}  // namespace crema
