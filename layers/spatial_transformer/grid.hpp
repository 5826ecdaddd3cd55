// The grid of points at which maps are sampled.
#pragma once

#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// Points of an axis of `size` pixels. Coordinate t from -1 to 1 is pixel
/// (t + 1) / 2 * extent + shift.
struct SampledAxis {
  int64_t size = 0;   // pixels of the bottom
  int64_t count = 0;  // those of the top
  double extent = 0, shift = 0;
  double first = 0, step = 0;  // coordinates of the top's pixels

  CREMA_FUNCTOR double coordinate(int64_t i) const { return first + step * static_cast<double>(i); }
  CREMA_FUNCTOR double pixel(double t) const { return (t + 1) / 2 * extent + shift; }
};

/// The rows and columns of the maps.
struct SamplingGrid {
  SampledAxis y, x;
  int64_t channels = 0;
  bool border = false;  // points outside of the maps are moved to the pixels at their border

  CREMA_FUNCTOR int64_t positions() const { return y.count * x.count; }
  CREMA_FUNCTOR int64_t pixels() const { return y.size * x.size; }
  /// Whether the points are so few that a copy of all pixels costs more than points one by one: 0.3
  /// to 0.5 ns a pixel against 21 ns a point (layer_bench).
  bool is_sparse() const { return 128 * positions() < pixels(); }
};

}  // namespace crema
