// The values of a blob as indices of rows.
#pragma once

#include <string_view>

#include "core/move.hpp"
#include "crema/blob.hpp"

namespace crema {

/// Indices grouped by their value. Group g holds the positions order[begins[g]] to
/// order[begins[g + 1] - 1], ascending, whose index is row[g].
struct RowGroups {
  int64_t count = 0;
  const int64_t* begins;
  const int64_t* order;
  const int64_t* row;
};

/// The values of a blob as indices of rows.
class RowIndices {
 public:
  /// Error, with the index, its position and the range, unless each value (f32 or f64) is a whole
  /// number in [0, rows). The message ends with `way_out`.
  void read(const Blob& from, int64_t rows, std::string_view way_out);

  int64_t count() const { return indices_.count(); }
  const int64_t* indices(const ComputeDevice& device) const {
    return device.read<int64_t>(indices_);
  }
  /// Of the last read().
  RowGroups groups(const ComputeDevice& device);
  size_t bytes() const {
    return indices_.bytes() + order_.bytes() + begins_.bytes() + rows_.bytes();
  }

 private:
  Tensor indices_{Shape{0}, DType::i64};
  Tensor order_{Shape{0}, DType::i64}, begins_{Shape{0}, DType::i64}, rows_{Shape{0}, DType::i64};
};

}  // namespace crema
