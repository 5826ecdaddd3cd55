// What MVN divides by, for its reference and its engines.
#pragma once

#include <cmath>

#include "backend/channel_view.hpp"

namespace crema::mvn {

/// 1 / (deviation + epsilon); 0 if that is 1 / 0: all values are equal, and become 0.
CREMA_FUNCTOR double inverse_of(double variance, double epsilon) {
  const double divisor = std::sqrt(variance) + epsilon;
  return divisor > 0 ? 1 / divisor : 0;
}

/// The sums of a group as means of dy and of dy * y, from which backward subtracts: epsilon does
/// not depend on x, so the second one counts (deviation + epsilon) / deviation times.
CREMA_FUNCTOR SumPair means_of(const SumPair& sums, double count, double inverse, double epsilon) {
  const double of_variance = 1 - epsilon * inverse;  // deviation / (deviation + epsilon)
  return {sums.first / count, of_variance > 0 ? sums.second / count / of_variance : 0};
}

}  // namespace crema::mvn
