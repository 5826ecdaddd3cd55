// Boxes of a detection database: AnnotatedDatum (proto/detection.proto) as create_annoset writes
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/images/geometry.hpp"

namespace crema {

class AnnotatedDatum;  // proto/detection.proto

struct LabeledBox {
  int32_t label = 0;
  int32_t instance = 0;  // tells boxes of one label in one image apart
  bool difficult = false;
  Box box;  // relative to the image, 0 to 1, or in pixels
};

/// The boxes of a record, relative to its image, in its order. Error, naming the box, for one that
/// has no box or no label, a label below 0, a coordinate that is not finite, or its right edge left
/// of its left one. A box may reach out of the image.
std::vector<LabeledBox> boxes_of(const AnnotatedDatum& datum);

/// Replaces the boxes of a record: a group a label, in the order of their first boxes. Instances
/// are numbered from 0 in each group; those of `boxes` do not count.
void set_boxes(std::span<const LabeledBox> boxes, AnnotatedDatum& datum);

/// Times the sides of an image: from relative coordinates to pixels.
Box to_pixels(const Box& box, ImageSize image);
/// And back.
Box to_relative(const Box& box, ImageSize image);

}  // namespace crema
