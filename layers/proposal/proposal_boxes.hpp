// The boxes that Proposal chooses from: anchors, moved and scaled by offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/move.hpp"
#include "crema/blob.hpp"
#include "layer_support/boxes.hpp"

namespace crema {

/// Sides of an image, and the least sides of its regions.
template <class T>
struct ImageInfo {
  T height, width, least_height, least_width;

  /// Row: height, width and scale, or those of height and width.
  CREMA_FUNCTOR static ImageInfo of(const T* row, int64_t columns, T least) {
    return {row[0], row[1], least * row[2], least * (columns > 3 ? row[3] : row[2])};
  }
};

/// An anchor moved and scaled by its four offsets, cut to the image.
template <class T>
CREMA_FUNCTOR BoundingBox<T> moved(const BoundingBox<T>& anchor, T dx, T dy, T log_width,
                                   T log_height, const ImageInfo<T>& image) {
  const T width = anchor.xmax - anchor.xmin + 1, height = anchor.ymax - anchor.ymin + 1;
  const T x = anchor.xmin + width / 2 + dx * width, y = anchor.ymin + height / 2 + dy * height;
  const T half_width = exp(log_width) * width / 2, half_height = exp(log_height) * height / 2;
  // NaN stays NaN, so that the region has no side.
  const auto cut = [](T value, T side) {
    const T last = side - 1 > T{0} ? side - 1 : T{0};
    return value <= 0 ? T{0} : value > last ? last : value;
  };
  return {cut(x - half_width, image.width), cut(y - half_height, image.height),
          cut(x + half_width, image.width), cut(y + half_height, image.height)};
}

/// What is proposed from, and how much of it.
struct ProposalProblem {
  int64_t images = 0, height = 0, width = 0;
  int64_t anchors = 0, stride = 1;  // an anchor's boxes are `stride` pixels apart
  int64_t columns = 3;              // of a row about an image
  double least_side = 0;
  double threshold = 0;
  int64_t first = -1;  // boxes that are considered, best first; -1: all
  int64_t most = 0;    // regions an image

  CREMA_FUNCTOR int64_t each() const { return height * width * anchors; }
  /// The score of box i of an image: boxes are numbered by row, column and anchor.
  CREMA_FUNCTOR int64_t score_at(int64_t image, int64_t i) const {
    return ((2 * image + 1) * anchors + i % anchors) * height * width + i / anchors;
  }
  /// Box i of an image. `shapes`: of the anchors at the origin; `offsets`: bottom 1.
  template <class T>
  CREMA_FUNCTOR BoundingBox<T> box_at(const BoundingBox<double>* shapes, const T* offsets,
                                      int64_t image, int64_t i, const ImageInfo<T>& info) const {
    const int64_t area = height * width, cell = i / anchors, kind = i % anchors;
    const auto x = static_cast<double>(cell % width * stride);
    const auto y = static_cast<double>(cell / width * stride);
    const BoundingBox<double>& a = shapes[kind];
    const BoundingBox<T> anchor{static_cast<T>(a.xmin + x), static_cast<T>(a.ymin + y),
                                static_cast<T>(a.xmax + x), static_cast<T>(a.ymax + y)};
    const T* const d = offsets + (image * anchors + kind) * 4 * area + cell;
    return moved(anchor, d[0], d[area], d[2 * area], d[3 * area], info);
  }
};

/// The choice of regions on a device.
class ProposalOnDevice {
 public:
  explicit ProposalOnDevice(const std::vector<BoundingBox<double>>& anchors);
  ~ProposalOnDevice();

  /// Writes the tops, and sets their shapes by reshape(number of regions), for which the host
  /// waits. False, and nothing is written, where a score or a row about an image is refused.
  template <class Reshape>
  bool run(const ComputeDevice& device, const ProposalProblem& problem, Blobs bottom, Blobs top,
           const Reshape& reshape) {
    const int64_t regions = choose(device, problem, bottom);
    if (regions < 0) return false;
    reshape(regions);
    write(device, top);
    return true;
  }
  size_t bytes() const;

 private:
  /// The number of regions; -1 where something is refused.
  int64_t choose(const ComputeDevice& device, const ProposalProblem& problem, Blobs bottom);
  void write(const ComputeDevice& device, Blobs top);

  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace crema
