// Accuracy of one position, written once for the CPU and CUDA.
#pragma once

#include <cstdint>

#include "backend/functor.hpp"

namespace crema {

/// Whether the label's score is among the top_k of `classes` scores `stride` apart. Equal scores
/// count as better ones, and NaN is never right.
template <class T>
CREMA_FUNCTOR bool is_among_best(const T* scores, int64_t classes, int64_t stride, int32_t label,
                                 int64_t top_k) {
  const T own = scores[label * stride];
  int64_t not_worse = 0;  // its own included
  for (int64_t c = 0; c < classes; ++c) not_worse += scores[c * stride] >= own;
  return own == own && not_worse <= top_k;
}

}  // namespace crema
