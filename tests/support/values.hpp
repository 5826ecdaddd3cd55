// A tensor's values as plain numbers, for comparisons.
#pragma once

#include <vector>

#include "crema/tensor.hpp"

namespace crema::test {

/// In logical order, whatever the memory format is.
inline std::vector<double> values_of(const Tensor& tensor) {
  const Tensor flat = tensor.to(DType::f64, Format::contiguous);
  const std::span<const double> values = flat.values<double>();
  return {values.begin(), values.end()};
}

}  // namespace crema::test
