// Transposition of small matrices, the inner step of every change between memory formats.
#pragma once

#include <cstdint>

namespace crema {

/// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
template <class E>
void transpose(const E* from, int64_t from_stride, E* to, int64_t to_stride, int64_t rows,
               int64_t columns);

}  // namespace crema
