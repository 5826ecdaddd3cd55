// AxisSplit: a shape as (outer, size, inner), where size is the extent of one axis. Most layers
// with an `axis` compute in this form.
#pragma once

#include "core/functor.hpp"
#include "crema/shape.hpp"

namespace crema {

struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;

  AxisSplit() = default;
  /// A negative `axis` counts from the end. Error if the shape has no such axis.
  AxisSplit(const Shape& shape, int axis) : AxisSplit(shape, axis, axis) {}
  /// The same for the axes from `first` to `last`, joined into one.
  AxisSplit(const Shape& shape, int first, int last) {
    const int begin = shape.canonical_axis(first), end = shape.canonical_axis(last) + 1;
    outer = shape.count(0, begin);
    size = shape.count(begin, end);
    inner = shape.count(end);
  }

  /// The same memory where the axis lies innermost, as that of channels does in channels_last. The
  /// positions have the same numbers.
  AxisSplit innermost() const {
    AxisSplit split;
    split.outer = positions();
    split.size = size;
    return split;
  }

  /// Number of positions: pairs of an outer and an inner index, in the order of memory.
  CREMA_FUNCTOR int64_t positions() const { return outer * inner; }
  CREMA_FUNCTOR int64_t count() const { return outer * size * inner; }
  /// The index in memory of the first element of a position; the next ones follow in steps of
  /// `inner`.
  CREMA_FUNCTOR int64_t at(int64_t position) const {
    return position / inner * size * inner + position % inner;
  }
};

}  // namespace crema
