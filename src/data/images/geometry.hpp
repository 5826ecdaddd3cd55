// Geometry: where the pixels of a record are in its sample. Whatever is done to the pixels can be
// done to the points, boxes and label maps that lie on them.
//
// Coordinates are continuous, in pixels from the outer corner of the first one: pixel (row, column)
// covers [column, column + 1) x [row, row + 1).
#pragma once

#include <cstdint>
#include <optional>

#include "data/images/image.hpp"

namespace crema {

struct Point {
  double x = 0, y = 0;
};

/// Edges, in pixels.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;

  double area() const { return (right - left) * (bottom - top); }
};

class Geometry {
 public:
  /// Of a sample that is the record.
  explicit Geometry(ImageSize record) : record_(record), sample_(record) {}

  /// Each of these goes on from the sample so far.
  void resize(ImageSize size);
  /// The window may reach beyond the sample, which pads it.
  void cut(const ImageWindow& window);
  /// Counter-clockwise about the centre; the size stays.
  void rotate(double degrees);
  /// Left to right.
  void mirror();
  /// All that `next` does; its record is the sample so far.
  void then(const Geometry& next);

  ImageSize record_size() const { return record_; }
  ImageSize sample_size() const { return sample_; }

  /// From the record into the sample, where it may lie outside.
  Point apply(Point point) const;
  /// The smallest upright box around the box, which may reach out of the sample.
  Box apply(const Box& box) const;
  /// Writes to `out` (sample size) what `labels` (record size) has at the middle of each pixel;
  /// `outside` where the record has nothing.
  template <class Label>
  void apply(const Label* labels, Label outside, Label* out) const;

 private:
  /// x' = xx x + xy y + x1; y' = yx x + yy y + y1.
  struct Affine {
    double xx = 1, xy = 0, x1 = 0;
    double yx = 0, yy = 1, y1 = 0;
  };
  void then(const Affine& next);

  Affine map_;
  ImageSize record_, sample_;
};

/// The part of a box that lies in a sample; none where nothing does.
std::optional<Box> clipped(const Box& box, ImageSize sample);
/// Whether a box stays with the sample: by the share of its area that lies inside, which is more
/// than 0, or, without a least share, by its centre. proto/augment.proto, EmitConstraint.
bool stays(const Box& box, ImageSize sample, std::optional<double> least_share);

}  // namespace crema
