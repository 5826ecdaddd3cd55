// The values of a blob as indices of rows.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/functor.hpp"
#include "core/move.hpp"
#include "crema/blob.hpp"

namespace crema {

class Layer;
class LayerCheck;

/// Indices grouped by their value. Group g holds the positions order[begins[g]] to
/// order[begins[g + 1] - 1], ascending, whose index is row[g]. On a device, which knows no number
/// of groups, `begins` is null, and position order[i] has the index row[i]: groups are runs of
/// equal ones, and `count` is that of the positions.
struct RowGroups {
  int64_t count = 0;
  const int64_t* begins;
  const int64_t* order;
  const int64_t* row;

  /// Whether group g is one: on a device, the first of a run.
  CREMA_FUNCTOR bool is_group(int64_t g) const { return begins || g == 0 || row[g] != row[g - 1]; }
  CREMA_FUNCTOR int64_t first(int64_t g) const { return begins ? begins[g] : g; }
  /// Whether order[j], which follows one of group g, is in it.
  CREMA_FUNCTOR bool has(int64_t g, int64_t j) const {
    return begins ? j < begins[g + 1] : j < count && row[j] == row[g];
  }
};

/// Throws the Error of an index.
[[noreturn]] void refuse_index(const std::string& name, const Shape& shape, int64_t position,
                               double index, int64_t rows, std::string_view way_out);

/// The values of a blob as indices of rows.
class RowIndices {
 public:
  RowIndices();
  ~RowIndices();

  /// Error, with the index, its position and the range, unless each value (f32 or f64) is a whole
  /// number in [0, rows). The message ends with `way_out`.
  void read(const Blob& from, int64_t rows, std::string_view way_out);
  /// The same on either side. On a device it is queued: the run of the device reports a bad index
  /// (core/device_run.hpp), which counts as 0 meanwhile.
  void read(const ComputeDevice& device, const Layer& layer, const Blob& from, int64_t rows,
            const std::string& way_out);

  int64_t count() const { return indices_.count(); }
  const int64_t* indices(const ComputeDevice& device) const {
    return device.read<int64_t>(indices_);
  }
  /// Of the last read().
  RowGroups groups(const ComputeDevice& device);
  size_t bytes() const {
    return indices_.bytes() + order_.bytes() + begins_.bytes() + rows_.bytes() + keys_.bytes();
  }

 private:
  void read_there(const ComputeDevice& device, const Layer& layer, const Blob& from,
                  const std::string& way_out);
  /// Whether indices and positions are sorted on a device: by numbers that double holds.
  bool sorts_there() const { return count_rows_ < (int64_t{1} << 53) / (count() + 1); }
  RowGroups groups_there(const ComputeDevice& device);

  Tensor indices_{Shape{0}, DType::i64};
  Tensor order_{Shape{0}, DType::i64}, begins_{Shape{0}, DType::i64}, rows_{Shape{0}, DType::i64};
  int64_t count_rows_ = 0;
  // Of a device:
  Tensor keys_{Shape{0}, DType::f64};
  std::unique_ptr<LayerCheck> check_;
  std::string name_, way_out_;  // of the blob, for the Error
  Shape shape_;
};

}  // namespace crema
