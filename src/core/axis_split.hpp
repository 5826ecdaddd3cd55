// A shape cut in three around one axis: what most layers that have an `axis` compute in.
#pragma once

#include "backend/functor.hpp"
#include "crema/shape.hpp"

namespace crema {

struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;

  AxisSplit() = default;
  /// `axis` may count from the back. Error when the shape has no such axis.
  AxisSplit(const Shape& shape, int axis) : AxisSplit(shape, axis, axis) {}
  /// Around the axes from `first` to `last`, joined.
  AxisSplit(const Shape& shape, int first, int last) {
    const int begin = shape.canonical_axis(first), end = shape.canonical_axis(last) + 1;
    outer = shape.count(0, begin);
    size = shape.count(begin, end);
    inner = shape.count(end);
  }

  /// Pairs of an outer and an inner index, numbered as they lie in memory.
  CREMA_FUNCTOR int64_t positions() const { return outer * inner; }
  CREMA_FUNCTOR int64_t count() const { return outer * size * inner; }
  /// Where the first element of a position lies; the others follow at a distance of `inner`.
  CREMA_FUNCTOR int64_t at(int64_t position) const {
    return position / inner * size * inner + position % inner;
  }
};

}  // namespace crema
