#include "layers/multibox_loss/truths.hpp"

#include <cmath>

#include "crema/error.hpp"
#include "layer_support/detection_rows.hpp"

namespace crema {

template <class T>
int64_t Truths<T>::image_of(const MultiBoxSettings& settings, const Blob& rows, int64_t row,
                            int64_t images) {
  const int64_t image = image_of_row<T>(rows, row, kTruthRow, images);
  if (image < 0) return -1;
  const T* const values = rows.data.read<T>() + row * kTruthRow;
  const T label = values[1];
  const auto refuse = [&](const auto&... parts) {
    throw Error("row ", row, " of '", rows.name, "', of image ", image, ", ", parts...)
        .of_sample(image);
  };
  // With one label for all objects, theirs may be any other.
  const bool any = settings.agnostic;
  const bool known = label >= 0 && (any || label < static_cast<T>(settings.classes));
  if (!known || std::floor(label) != label)
    refuse("has the label ", label, "; labels are whole numbers in [0, ", settings.classes,
           "): fix the labels or raise num_classes");
  if (label == static_cast<T>(settings.background))
    refuse("has the label ", label,
           ", which is background_label_id; give the boxes labels of their own");
  check_truth_box<T>(rows, row);
  return values[7] != T{0} && !settings.uses_difficult ? -1 : image;
}

template <class T>
void Truths<T>::read(const MultiBoxSettings& settings, const Blob& rows, int64_t images) {
  const int64_t count = rows.count() / kTruthRow;
  images_.resize(static_cast<size_t>(count));
  first_.assign(static_cast<size_t>(images) + 1, 0);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t image = image_of(settings, rows, row, images);
    images_[static_cast<size_t>(row)] = image;
    if (image >= 0) ++first_[static_cast<size_t>(image) + 1];
  }
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  next_ = first_;
  boxes_.resize(first_.back());
  labels_.resize(first_.back());
  ignored_.resize(first_.back());
  const T* values = rows.data.read<T>();
  for (int64_t row = 0; row < count; ++row, values += kTruthRow) {
    const int64_t image = images_[static_cast<size_t>(row)];
    if (image < 0) continue;
    const size_t at = next_[static_cast<size_t>(image)]++;
    boxes_[at] = BoundingBox<T>::load(values + 3);
    labels_[at] = settings.agnostic ? settings.object_label : static_cast<int32_t>(values[1]);
    ignored_[at] = settings.ignores_difficult && values[7] != T{0} ? 1 : 0;
  }
}

template class Truths<float>;
template class Truths<double>;

}  // namespace crema
