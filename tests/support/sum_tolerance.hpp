// The tolerance for long sums.
#pragma once

#include <algorithm>

#include "support/layer_test.hpp"

namespace crema::test {

/// For sums of `n` products of about 1 in f32. A partial sum grows as the root of n. Each addition
/// rounds it by at most 2^-24 of its size, and n such errors add up as their root: n * 2^-24.
inline Tolerance of_sums(double n) {
  constexpr double kRounding = 1.0 / (1 << 24);
  const Tolerance usual;
  return {std::max(usual.absolute, n * kRounding), usual.relative};
}

}  // namespace crema::test
