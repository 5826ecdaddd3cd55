#include "onnx/operators/sources.hpp"

namespace crema::onnx {

std::vector<int64_t> steps(int64_t count, int64_t step) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) result[static_cast<size_t>(i)] = i * step;
  return result;
}

std::vector<int64_t> sum_of_offsets(const std::vector<std::vector<int64_t>>& axes) {
  std::vector<int64_t> dims;
  for (const auto& offsets : axes) dims.push_back(static_cast<int64_t>(offsets.size()));
  if (checked_count(Shape(dims)) == 0) return {};
  std::vector<int64_t> sources{0};
  for (const std::vector<int64_t>& offsets : axes) {
    if (offsets.size() == 1 && offsets[0] == 0) continue;
    std::vector<int64_t> next;
    next.reserve(sources.size() * offsets.size());
    for (const int64_t source : sources) {
      for (const int64_t offset : offsets)
        next.push_back(source < 0 || offset < 0 ? kOutside : source + offset);
    }
    sources = std::move(next);
  }
  return sources;
}

std::vector<int64_t> sources_at(const Shape& from, std::vector<std::vector<int64_t>> indices) {
  const std::vector<int64_t> strides = strides_of(from);
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    for (int64_t& index : indices[axis]) {
      if (index != kOutside) index *= strides[axis];
    }
  }
  return sum_of_offsets(indices);
}

std::vector<std::vector<int64_t>> all_indices(const Shape& shape) {
  checked_count(shape);
  std::vector<std::vector<int64_t>> result;
  for (const int64_t dim : shape.dims()) result.push_back(steps(dim));
  return result;
}

Array chained(std::span<const Array* const> arrays) {
  std::vector<std::byte> bytes;
  int64_t count = 0;
  for (const Array* const array : arrays) {
    if (array->type() != arrays[0]->type())
      throw Error("values of ", type_name(array->type()), " and ", type_name(arrays[0]->type()),
                  " are combined; cast one of them");
    count += array->count();
    bytes.insert(bytes.end(), array->bytes().begin(), array->bytes().end());
  }
  return Array(arrays[0]->type(), {count}, std::move(bytes));
}

int64_t checked_index(int64_t index, int64_t size) {
  if (index < -size || index >= size)
    throw Error("index ", index, " is outside an axis of size ", size);
  return index < 0 ? index + size : index;
}

}  // namespace crema::onnx
