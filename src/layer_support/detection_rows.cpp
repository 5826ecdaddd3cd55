#include "layer_support/detection_rows.hpp"

#include <cmath>

#include "core/checked.hpp"
#include "crema/error.hpp"

namespace crema {

template <class T>
int64_t image_of_row(const Blob& rows, int64_t row, int64_t width, int64_t images) {
  const T image = rows.data.read<T>()[row * width];
  if (image == T{-1}) return -1;
  const bool known = images != kUnknownImages;
  // Beyond this, f64 counts no images.
  const double end = known ? static_cast<double>(images) : 1e15;
  if (!(image >= 0 && static_cast<double>(image) < end) || std::floor(image) != image)
    throw Error("row ", row, " of '", rows.name, "' is of image ", image,
                known ? text(", but the images of the batch are 0 to ", images - 1)
                      : "; images are numbered from 0",
                "; padding is of image -1");
  return static_cast<int64_t>(image);
}

template <class T>
void check_truth_box(const Blob& rows, int64_t row) {
  const T* const values = rows.data.read<T>() + row * kTruthRow;
  const auto refuse = [&](const auto&... parts) {
    throw Error("row ", row, " of '", rows.name, "', of image ", values[0], ", ", parts...)
        .of_sample(static_cast<int64_t>(values[0]));
  };
  for (int64_t k = 3; k < 7; ++k) {
    if (!std::isfinite(values[k])) refuse("has the coordinate ", values[k]);
  }
  if (values[5] < values[3] || values[6] < values[4])
    refuse("is the box (", values[3], ", ", values[4], ", ", values[5], ", ", values[6],
           "), whose xmax or ymax is below its xmin or ymin");
}

Predictions location_predictions(int64_t boxes, int64_t classes) {
  constexpr const char* kWhat = "values of locations";
  if (boxes == 1) return {4, kWhat, "share_location: true", "share_location", 4};
  return {checked_multiply(boxes, 4, "number of locations"), kWhat,
          text("share_location: false, num_classes: ", classes), "share_location or num_classes",
          4};
}

Predictions score_predictions(int64_t classes) {
  return {classes, "scores", text("num_classes: ", classes), "num_classes", classes};
}

void check_predictions(const Blob& blob, const Blob& prior_blob, int64_t priors,
                       const Predictions& wanted) {
  const Shape& shape = blob.shape();
  const int64_t all = checked_multiply(priors, wanted.each, wanted.what);
  const auto refuse = [&](const auto&... parts) {
    throw Error("'", blob.name, "' (", shape.str(), ") must have ", wanted.each, " ", wanted.what,
                " (", wanted.why, ") for each of the ", priors, " priors of '", prior_blob.name,
                "' (", prior_blob.shape().str(), "), N x ", all, parts...);
  };
  if (shape.rank() < 1) refuse(", not a scalar");
  const int64_t values = shape.count(1);
  if (values != all) {
    if (priors > 0 && values % priors == 0)
      refuse(", and has ", values / priors, " for each; correct ", wanted.setting,
             ", or num_output of the convolutions that make it");
    refuse(", and has ", values, ", no whole number for each; let PriorBox and the convolutions ",
           "have the same number of boxes at a place");
  }
  int last = shape.rank() - 1;
  while (last > 1 && shape[last] == 1) --last;
  // (N, priors, classes, 4) and (N, priors * classes, 4) have the values in order, too.
  bool in_order = last <= 1 || shape[last] % wanted.together == 0;
  int64_t inner = 1;
  for (int a = last; in_order && a > 0 && (inner == 1 || inner % wanted.each != 0); --a) {
    inner *= shape[a];
    in_order = inner % wanted.each == 0 || wanted.each % inner == 0;
  }
  if (!in_order)
    refuse(", those of a prior one behind the other, and its last axis has ", shape[last],
           "; put Permute (order: 0 order: 2 order: 3 order: 1) before it, or correct the dim of ",
           "the Reshape before it");
}

template int64_t image_of_row<float>(const Blob&, int64_t, int64_t, int64_t);
template int64_t image_of_row<double>(const Blob&, int64_t, int64_t, int64_t);
template void check_truth_box<float>(const Blob&, int64_t);
template void check_truth_box<double>(const Blob&, int64_t);

}  // namespace crema
