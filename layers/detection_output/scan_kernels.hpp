// Finds the few confidences that are above the threshold.
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

/// Scores of rows of classes, compared with a limit for each class.
template <class T>
class ConfidenceScan {
 public:
  /// `background` is passed over; -1: no class is.
  ConfidenceScan(int64_t classes, int64_t background, T least);

  /// Writes the indices i of all scores[i], i in [0, rows * classes), that are above the limit or
  /// NaN, rising, to `indices`, which has room for one more than all. Returns their number.
  int64_t run(const T* scores, int64_t rows, int32_t* indices) const;

 private:
  int64_t classes_;
  std::vector<T> limits_;  // of the classes, again and again, up to a vector behind the first ones
};

}  // namespace crema
