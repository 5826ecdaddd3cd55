#include "layer_support/row_indices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/dispatch.hpp"
#include "layer_support/device_check.hpp"

namespace crema {

RowIndices::RowIndices() = default;
RowIndices::~RowIndices() = default;

void RowIndices::read(const ComputeDevice& device, const Layer& layer, const Blob& from,
                      int64_t rows, const std::string& way_out) {
  if (device.on_host()) return read(from, rows, way_out);
  count_rows_ = rows;
  read_there(device, layer, from, way_out);
}

void RowIndices::read(const Blob& from, int64_t rows, std::string_view way_out) {
  const Shape& shape = from.shape();
  count_rows_ = rows;
  indices_.reshape(Shape{shape.count()});
  int64_t* const out = indices_.overwrite<int64_t>();
  dispatch_float(from.data.dtype(), [&]<class T>(T) {
    const T* const in = from.data.read<T>();
    for (int64_t i = 0; i < indices_.count(); ++i) {
      // Also false for NaN.
      if (!(in[i] >= T{0} && in[i] < T(rows) && std::trunc(in[i]) == in[i]))
        refuse_index(from.name, shape, i, static_cast<double>(in[i]), rows, way_out);
      out[i] = static_cast<int64_t>(in[i]);
    }
  });
}

void refuse_index(const std::string& name, const Shape& shape, int64_t position, double index,
                  int64_t rows, std::string_view way_out) {
  throw Error("index ", index, " at position ", position, " of '", name, "' (", shape.str(),
              ") is not a whole number in [0, ", rows, "); ", way_out)
      .of_sample(shape.rank() == 0 ? 0 : position / shape.count(1));
}

RowGroups RowIndices::groups(const ComputeDevice& device) {
  if (!device.on_host() && sorts_there()) return groups_there(device);
  const int64_t* const indices = indices_.read<int64_t>();
  order_.reshape(indices_.shape());
  int64_t* const order = order_.overwrite<int64_t>();
  std::iota(order, order + count(), int64_t{0});
  std::sort(order, order + count(), [indices](int64_t a, int64_t b) {
    return indices[a] != indices[b] ? indices[a] < indices[b] : a < b;
  });
  begins_.reshape(Shape{count() + 1});
  rows_.reshape(indices_.shape());
  int64_t* const begins = begins_.overwrite<int64_t>();
  int64_t* const rows = rows_.overwrite<int64_t>();
  int64_t groups = 0;
  for (int64_t i = 0; i < count(); ++i) {
    if (i > 0 && indices[order[i]] == indices[order[i - 1]]) continue;
    begins[groups] = i;
    rows[groups++] = indices[order[i]];
  }
  begins[groups] = count();
  return {groups, device.read<int64_t>(begins_), device.read<int64_t>(order_),
          device.read<int64_t>(rows_)};
}

}  // namespace crema
