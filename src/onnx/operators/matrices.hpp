// Products of matrices with numpy's rules for other ranks, for MatMul and its forms with integers.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

struct ProductShape {
  Shape a;       // at least 2 axes: (..., rows, depth)
  Shape b;       // (..., depth, columns)
  Shape batch;   // that the axes in front broadcast to
  Shape output;  // without the axes that vectors do not have
  int64_t rows = 1;
  int64_t depth = 1;
  int64_t columns = 1;
};

/// Error where the operands do not fit.
ProductShape product_shape(const Call& call, const Shape& a, const Shape& b);

/// Unsigned integers wrap, which is exact for signed ones too.
template <class T>
std::vector<T> matrix_product(const ProductShape& s, const std::vector<T>& a,
                              const std::vector<T>& b) {
  const std::vector<int64_t> dims_a(s.a.dims().begin(), s.a.dims().end() - 2);
  const std::vector<int64_t> dims_b(s.b.dims().begin(), s.b.dims().end() - 2);
  const std::vector<int64_t> sources_a = broadcast_sources(Shape(dims_a), s.batch);
  const std::vector<int64_t> sources_b = broadcast_sources(Shape(dims_b), s.batch);
  std::vector<T> result(static_cast<size_t>(s.output.count()), T{});
  for (size_t n = 0; n < sources_a.size(); ++n) {
    const T* left = a.data() + sources_a[n] * s.rows * s.depth;
    const T* right = b.data() + sources_b[n] * s.depth * s.columns;
    T* target = result.data() + static_cast<int64_t>(n) * s.rows * s.columns;
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t k = 0; k < s.depth; ++k)
        for (int64_t j = 0; j < s.columns; ++j)
          target[i * s.columns + j] += left[i * s.depth + k] * right[k * s.columns + j];
  }
  return result;
}

}  // namespace crema::onnx
