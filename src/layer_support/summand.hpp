// Layers that add another bottom in the pass of their own (TailStep::Kind::add).
#pragma once

#include "crema/layer.hpp"

namespace crema {

/// The index of the bottom that a sum in the tail adds; 0 without a sum.
inline size_t added_bottom(const Tail& tail) {
  for (const TailStep& step : tail) {
    if (step.kind == TailStep::Kind::add) return static_cast<size_t>(step.bottom);
  }
  return 0;
}

/// That bottom; null without a sum.
inline Blob* summand_of(const Tail& tail, Blobs bottom) {
  const size_t index = added_bottom(tail);
  return index > 0 ? bottom[index] : nullptr;
}

}  // namespace crema
