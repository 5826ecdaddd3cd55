// Lists of places in arrays: most operators that move data say for each element of their output
// which element of the input it is, and Array::taken() does the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "onnx/operators/array.hpp"

namespace crema::onnx {

/// Stands for a place outside: Array::taken() gives 0 there.
inline constexpr int64_t kOutside = -1;

/// 0, `step`, 2 * `step`, ...: `count` of them.
std::vector<int64_t> steps(int64_t count, int64_t step = 1);
/// For each element of an output with one axis for each list: the sum of the offsets that the lists
/// have at its indices; kOutside where one of those is.
std::vector<int64_t> sum_of_offsets(const std::vector<std::vector<int64_t>>& axes);
/// The sources in an array of shape `from` where index i of axis k is index `indices[k][i]` there,
/// or kOutside.
std::vector<int64_t> sources_at(const Shape& from, std::vector<std::vector<int64_t>> indices);
/// Lists for sources_at() that leave each axis as it is.
std::vector<std::vector<int64_t>> all_indices(const Shape& shape);

/// The elements of all arrays, of the same type, one after the other, as a vector.
Array chained(std::span<const Array* const> arrays);
/// Index of an axis of `size`, counted from the front. Error for one that is not there.
int64_t checked_index(int64_t index, int64_t size);

}  // namespace crema::onnx
