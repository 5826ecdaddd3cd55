// Values of operands, spread to the shape that they broadcast to.
#pragma once

#include <vector>

#include "onnx/operators/array.hpp"

namespace crema::onnx {

/// The values of an array of shape `from`, each as often as shape `to` has it.
template <class T>
std::vector<T> spread(std::vector<T> values, const Shape& from, const Shape& to) {
  if (from == to) return values;
  std::vector<T> result;
  const std::vector<int64_t> sources = broadcast_sources(from, to);
  result.reserve(sources.size());
  for (const int64_t source : sources) result.push_back(values[static_cast<size_t>(source)]);
  return result;
}

}  // namespace crema::onnx
