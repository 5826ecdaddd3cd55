#include "kit/detection_rows.hpp"

#include <cmath>

#include "crema/error.hpp"

namespace crema {

template <class T>
int64_t image_of_row(const Blob& rows, int64_t row, int64_t width, int64_t images) {
  const T image = rows.data.host<T>()[row * width];
  if (image == T{-1}) return -1;
  const bool known = images != kUnknownImages;
  // Beyond this, f64 counts no images.
  const double end = known ? static_cast<double>(images) : 1e15;
  if (!(image >= 0 && static_cast<double>(image) < end) || std::floor(image) != image)
    throw Error("row ", row, " of '", rows.name, "' is of image ", image,
                known ? concat(", but the images of the batch are 0 to ", images - 1)
                      : "; images are numbered from 0",
                "; padding is of image -1");
  return static_cast<int64_t>(image);
}

template <class T>
void check_truth_box(const Blob& rows, int64_t row) {
  const T* const values = rows.data.host<T>() + row * kTruthRow;
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

template int64_t image_of_row<float>(const Blob&, int64_t, int64_t, int64_t);
template int64_t image_of_row<double>(const Blob&, int64_t, int64_t, int64_t);
template void check_truth_box<float>(const Blob&, int64_t);
template void check_truth_box<double>(const Blob&, int64_t);

}  // namespace crema
