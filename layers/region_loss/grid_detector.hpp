// What the detectors of YOLO v2 and v3 share: the layout of their predictions, predicted boxes, and
// true boxes. Each cell of a grid over the image predicts a box for each of some anchor boxes.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "crema/blob.hpp"
#include "layer_support/boxes.hpp"

namespace crema {

/// Width and height of an anchor box, in cells.
struct GridAnchor {
  double width, height;
};

/// Reads `biases`, width and height by turns, in units of which a cell has `unit`. Error if they
/// are no pairs, or not above 0.
std::vector<GridAnchor> grid_anchors(std::span<const float> biases, double unit);

/// The numbers of the anchor boxes that a bottom predicts, as its `mask` names them. Error if one
/// is not among the `count` of them, or comes twice.
std::vector<int64_t> anchors_of_mask(std::span<const uint32_t> mask, size_t count);

/// Predictions (N, anchors * (5 + classes), H, W): of each anchor x, y, width, height, the score of
/// an object, and the scores of the classes.
struct GridLayout {
  enum Attribute : int64_t { kX, kY, kWidth, kHeight, kObject, kClasses };

  int64_t images = 0, anchors = 0, classes = 0, height = 0, width = 0;

  /// Error if the blob has another shape.
  GridLayout(const Blob& predictions, int64_t anchors, int64_t classes);
  GridLayout() = default;

  CREMA_FUNCTOR int64_t cells() const { return height * width; }
  /// The place of an attribute of the first cell; those of other cells follow.
  CREMA_FUNCTOR int64_t plane(int64_t image, int64_t anchor, int64_t attribute) const {
    return ((image * anchors + anchor) * (kClasses + classes) + attribute) * cells();
  }
};

CREMA_FUNCTOR double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// A box relative to the image, by its centre.
struct CentredBox {
  double x, y, width, height;

  template <class T>
  CREMA_FUNCTOR BoundingBox<T> edges() const {
    return {static_cast<T>(x - width / 2), static_cast<T>(y - height / 2),
            static_cast<T>(x + width / 2), static_cast<T>(y + height / 2)};
  }
};

/// With v the predictions of a cell (column, row):
///   x = (column + sigmoid(v_x)) / W, y likewise, width = anchor width * exp(v_width) / W, ...
template <class T>
CREMA_FUNCTOR CentredBox predicted_box(const GridLayout& grid, const T* values, int64_t image,
                                       int64_t number, const GridAnchor& anchor, int64_t cell) {
  const auto value = [&](int64_t attribute) {
    return static_cast<double>(values[grid.plane(image, number, attribute) + cell]);
  };
  const auto width = static_cast<double>(grid.width), height = static_cast<double>(grid.height);
  return {(static_cast<double>(cell % grid.width) + sigmoid_of(value(GridLayout::kX))) / width,
          (static_cast<double>(cell / grid.width) + sigmoid_of(value(GridLayout::kY))) / height,
          anchor.width * std::exp(value(GridLayout::kWidth)) / width,
          anchor.height * std::exp(value(GridLayout::kHeight)) / height};
}

/// A true box, and its class, from 0 on.
struct GridTruth {
  CentredBox box;
  int32_t label;
};

/// The true boxes of a batch.
class GridTruths {
 public:
  /// Values of a row without its image.
  static constexpr int64_t kCentreRow = 5;
  /// Whether labels of this shape are rows of the first kind.
  static bool names_images(const Shape& shape);

  /// Reads rows of either kind:
  ///   (1, 1, R, 8): image, label, instance, xmin, ymin, xmax, ymax, difficult, as AnnotatedData
  ///     gives them; label 0 is the background, so that class c is label c + 1. Rows of image -1
  ///     are padding.
  ///   (N, ...), five values a row: class, x and y of the centre, width, height. Rows of width and
  ///     height 0 are padding.
  /// Coordinates are relative to the image. Boxes whose centre lies outside of it are left out.
  /// Error with the row if image, label or coordinates are wrong.
  void read(const Blob& labels, int64_t images, int64_t classes);

  /// In the order of the rows.
  std::span<const GridTruth> of(int64_t image) const { return truths_[static_cast<size_t>(image)]; }

 private:
  void add(const Blob& labels, int64_t row, int64_t image, int64_t classes, double label,
           double first, const CentredBox& box);

  std::vector<std::vector<GridTruth>> truths_;  // of each image
};

/// Error unless labels have one of the shapes that GridTruths reads.
void check_truth_shape(const Blob& labels, int64_t images);

}  // namespace crema
