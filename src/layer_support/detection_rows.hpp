// Boxes of a batch in rows. What layers detect: image, label, confidence, xmin, ymin, xmax, ymax.
// True boxes, as AnnotatedData writes them: image, label, instance, xmin, ymin, xmax, ymax,
// difficult.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "crema/blob.hpp"
#include "layer_support/boxes.hpp"

namespace crema {

inline constexpr int64_t kDetectionRow = 7;
inline constexpr int64_t kTruthRow = 8;

inline constexpr int64_t kUnknownImages = -1;

/// The image of a row of `width` values, -1 for padding. Error with the row unless it is one of the
/// `images` of the batch.
template <class T>
int64_t image_of_row(const Blob& rows, int64_t row, int64_t width, int64_t images);

/// Error with the row unless the coordinates of a true box are finite, and none is below the
/// opposite one.
template <class T>
void check_truth_box(const Blob& rows, int64_t row);

/// How many values a prior box has in a blob of predictions.
struct Predictions {
  int64_t each;         // values
  const char* what;     // "scores"
  std::string why;      // what `each` follows from: "num_classes: 21"
  const char* setting;  // what may be wrong besides the maker of the blob
  int64_t together;     // values that no axis parts: the edges of a box, or all
};
/// Of a box, or of `boxes` at once: one a class.
Predictions location_predictions(int64_t boxes, int64_t classes);
Predictions score_predictions(int64_t classes);
/// Error, with the numbers, unless each image of `blob` has `each` values for each of the prior
/// boxes, those of one box one behind the other.
void check_predictions(const Blob& blob, const Blob& prior_blob, int64_t priors,
                       const Predictions& wanted);

template <class T>
struct Detection {
  T score;
  int32_t prior;
  BoundingBox<T> box;
};

/// Writes the rows by image and label, and gives the top the shape (1, 1, count, 7):
/// of(image, label) are the detections, `count` in all; their label is label + first. Without any,
/// one row an image, as the SSD fork has it: its number and six times -1. `shape` is of four axes,
/// the last 7; the caller keeps it, so that a pass allocates none.
template <class T, class Of>
void write_detections(Blob& top, Shape& shape, int64_t images, int64_t labels, int64_t count,
                      const Of& of, int64_t first = 0) {
  shape.set(2, count == 0 ? images : count);
  top.reshape(shape);
  T* to = top.data.template overwrite<T>();
  for (int64_t image = 0; image < images; ++image) {
    if (count == 0) {
      std::fill_n(to, kDetectionRow, T{-1});
      to[0] = static_cast<T>(image);
      to += kDetectionRow;
      continue;
    }
    for (int64_t label = 0; label < labels; ++label) {
      for (const Detection<T>& one : std::span<const Detection<T>>(of(image, label))) {
        to[0] = static_cast<T>(image);
        to[1] = static_cast<T>(label + first);
        to[2] = one.score;
        one.box.store(to + 3);
        to += kDetectionRow;
      }
    }
  }
}

}  // namespace crema
