// The points of the maps that the taps of a deformable convolution read.
#pragma once

#include <cstdint>

#include "core/functor.hpp"

namespace crema {

/// The windows along an axis.
struct DeformedAxis {
  int64_t size, count;  // of the bottom and of the top
  int64_t kernel, stride, pad, dilation;

  /// Where a tap of a position is without an offset.
  CREMA_FUNCTOR double at(int64_t position, int64_t tap) const {
    return static_cast<double>(position * stride - pad + tap * dilation);
  }
};

struct DeformedShape {
  DeformedAxis y, x;
  int64_t channels, outputs;
  int64_t groups;         // of weights
  int64_t offset_groups;  // of channels with offsets of their own

  CREMA_FUNCTOR int64_t pixels() const { return y.size * x.size; }
  CREMA_FUNCTOR int64_t positions() const { return y.count * x.count; }
  CREMA_FUNCTOR int64_t taps() const { return y.kernel * x.kernel; }
  CREMA_FUNCTOR int64_t group_channels() const { return channels / groups; }
  CREMA_FUNCTOR int64_t group_outputs() const { return outputs / groups; }
  CREMA_FUNCTOR int64_t offset_channels() const { return channels / offset_groups; }
  /// Values of a row of columns: those that an output of a group is a sum of.
  CREMA_FUNCTOR int64_t depth() const { return group_channels() * taps(); }
};

/// A point between four pixels: corner k is pixel at[k], row k / 2 and column k % 2 of the four.
/// Corners outside of the map are not `there`.
struct DeformedPoint {
  int64_t at[4];
  bool there[4];
  double y[2], x[2];  // weights of rows and columns

  CREMA_FUNCTOR double weight(int k) const { return there[k] ? y[k / 2] * x[k % 2] : 0; }
  /// Derivatives of weight(k) by the row and by the column of the point, from the right where it is
  /// a pixel.
  CREMA_FUNCTOR double slope_y(int k) const { return (k / 2 == 0 ? -1 : 1) * x[k % 2]; }
  CREMA_FUNCTOR double slope_x(int k) const { return (k % 2 == 0 ? -1 : 1) * y[k / 2]; }

  /// At a point that is no number, the weights are none, so that nothing hides it.
  static CREMA_FUNCTOR DeformedPoint of(const DeformedShape& shape, double y, double x) {
    DeformedPoint point{};
    if (y != y || x != x) {
      for (int k = 0; k < 4; ++k) point.there[k] = true;
      for (int k = 0; k < 2; ++k) point.y[k] = point.x[k] = y + x;
      return point;
    }
    const bool inside = y >= -1 && y < static_cast<double>(shape.y.size) && x >= -1 &&
                        x < static_cast<double>(shape.x.size);
    if (!inside) return point;
    // Rounded down: the points are not below -1.
    const int64_t top = static_cast<int64_t>(y + 1) - 1, left = static_cast<int64_t>(x + 1) - 1;
    point.y[1] = y - static_cast<double>(top);
    point.y[0] = 1 - point.y[1];
    point.x[1] = x - static_cast<double>(left);
    point.x[0] = 1 - point.x[1];
    for (int k = 0; k < 4; ++k) {
      const int64_t row = top + k / 2, column = left + k % 2;
      point.there[k] = row >= 0 && row < shape.y.size && column >= 0 && column < shape.x.size;
      point.at[k] = point.there[k] ? row * shape.x.size + column : 0;
    }
    return point;
  }
};

/// Positions [first, first + count) of images [image, image + images). Their rows: position by
/// position of one image after the other.
struct DeformedChunk {
  int64_t image, images, first, count;

  CREMA_FUNCTOR int64_t rows() const { return images * count; }
  /// Of all images of the batch and positions of an image.
  CREMA_FUNCTOR int64_t image_of(int64_t row) const { return image + row / count; }
  CREMA_FUNCTOR int64_t position_of(int64_t row) const { return first + row % count; }
  /// The place of channel c of a tap in columns (groups, rows, taps, channels of a group).
  CREMA_FUNCTOR int64_t column(const DeformedShape& shape, int64_t row, int64_t tap,
                               int64_t c) const {
    const int64_t each = shape.group_channels(), group = c / each;
    return ((group * rows() + row) * shape.taps() + tap) * each + c % each;
  }
};

/// A row of columns: a position of an image.
struct DeformedRow {
  int64_t in_chunk, image, position;  // the number of the image in the chunk, and in the batch
  double y, x;                        // of the window

  static CREMA_FUNCTOR DeformedRow of(const DeformedShape& shape, const DeformedChunk& chunk,
                                      int64_t row) {
    const int64_t in_chunk = row / chunk.count, p = chunk.first + row % chunk.count;
    return {in_chunk, chunk.image + in_chunk, p, shape.y.at(p / shape.x.count, 0),
            shape.x.at(p % shape.x.count, 0)};
  }
};

/// Offsets (N, offset groups, taps, 2, positions), row first, and the mask (N, offset groups, taps,
/// positions), or null.
template <class T>
struct DeformedTaps {
  DeformedShape shape;
  const T *offsets, *mask;

  /// The index of a tap at position 0.
  CREMA_FUNCTOR int64_t tap_index(int64_t image, int64_t group, int64_t tap) const {
    return (image * shape.offset_groups + group) * shape.taps() + tap;
  }
  /// Where a tap lies in its window without an offset.
  CREMA_FUNCTOR double tap_y(int64_t tap) const {
    return static_cast<double>(tap / shape.x.kernel * shape.y.dilation);
  }
  CREMA_FUNCTOR double tap_x(int64_t tap) const {
    return static_cast<double>(tap % shape.x.kernel * shape.x.dilation);
  }
  /// The point that a tap reads; (y, x): tap_y and tap_x.
  CREMA_FUNCTOR DeformedPoint point(const DeformedRow& row, int64_t group, int64_t tap, double y,
                                    double x) const {
    const T* const moved =
        offsets + 2 * tap_index(row.image, group, tap) * shape.positions() + row.position;
    return DeformedPoint::of(shape, row.y + y + static_cast<double>(moved[0]),
                             row.x + x + static_cast<double>(moved[shape.positions()]));
  }
  /// What the mask multiplies the value at the point by.
  CREMA_FUNCTOR double factor(const DeformedRow& row, int64_t group, int64_t tap) const {
    if (mask == nullptr) return 1;
    return static_cast<double>(
        mask[tap_index(row.image, group, tap) * shape.positions() + row.position]);
  }
};

}  // namespace crema
