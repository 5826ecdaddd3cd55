// The true boxes of a batch: rows of image, label, instance, xmin, ymin, xmax, ymax, difficult, as
// AnnotatedData writes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "crema/blob.hpp"
#include "layers/multibox_loss/settings.hpp"

namespace crema {

template <class T>
class Truths {
 public:
  /// Reads and checks the rows. Those of image -1 are padding. Boxes that the settings drop are
  /// left out. Error with the row if image, label or coordinates are wrong.
  void read(const MultiBoxSettings& settings, const Blob& rows, int64_t images);

  /// The boxes of an image, in the order of the rows.
  std::span<const BoundingBox<T>> boxes(int64_t image) const { return part(boxes_, image); }
  /// The label that the net should give each of them, and whether it is to be ignored.
  std::span<const int32_t> labels(int64_t image) const { return part(labels_, image); }
  std::span<const uint8_t> ignored(int64_t image) const { return part(ignored_, image); }

 private:
  template <class V>
  std::span<const V> part(const std::vector<V>& all, int64_t image) const {
    const auto i = static_cast<size_t>(image);
    return std::span(all).subspan(first_[i], first_[i + 1] - first_[i]);
  }
  /// The image of a row after all checks, or -1 if the row is left out.
  int64_t image_of(const MultiBoxSettings& settings, const Blob& rows, int64_t row, int64_t images);

  std::vector<size_t> first_, next_;  // of each image, in the arrays below
  std::vector<int64_t> images_;       // of each row
  std::vector<BoundingBox<T>> boxes_;
  std::vector<int32_t> labels_;
  std::vector<uint8_t> ignored_;
};

}  // namespace crema
