// The inner loops of ThinProduct (thin_product.hpp), in f32 by Highway.
#pragma once

#include <cstdint>

namespace crema {

/// `rows` rows of `columns` elements of the matrix, `stride` elements apart.
struct ThinPart {
  int64_t batch, rows, columns, stride;
};

/// Factors and sums are packed as (strip, step, lane): strips of lanes lie one behind the other. A
/// strip has two vectors, or one where the last strip needs no more.
struct ThinKernels {
  static constexpr int64_t kFew = 4;      // the largest batch of few_dots
  static constexpr int64_t kFewRows = 4;  // a multiple of the rows that few_dots takes at once

  int64_t rows;   // of a tile of the matrix
  int64_t width;  // lanes of a vector

  /// Packs columns of a matrix of `batch` rows, which lie `stride` elements apart: pack_columns in
  /// strips, pack_rows in strips of `rows` lanes. Lanes that fill the last strip are 0.
  void (*pack_rows)(const float* from, int64_t stride, int64_t batch, int64_t columns, float* to);
  void (*pack_columns)(const float* from, int64_t stride, int64_t batch, int64_t columns,
                       float* to);
  /// sums[r, n] = sum over columns c of matrix[r, c] * a[n, c]; `adds`: += . `a` is packed with
  /// (column, n). Rows of sums are the batch, rounded up to vectors; sums has whole tiles of rows.
  void (*dots)(const ThinPart& part, const float* a, const float* matrix, bool adds, float* sums);
  /// For a batch of 1 to kFew: out[n, r] = sum over columns c of matrix[r, c] * a[n, c], where rows
  /// of `a` lie part.stride apart and those of `out` out_stride. Lanes are columns, and nothing is
  /// packed.
  void (*few_dots[kFew + 1])(const ThinPart& part, const float* a, const float* matrix, float* out,
                             int64_t out_stride);
  /// sums[n, c] += sum over rows r of a[n, r] * matrix[r, c]. `a` is packed by pack_rows, sums with
  /// (n, column).
  void (*add_rows)(const ThinPart& part, const float* a, const float* matrix, float* sums);
  /// matrix[r, c] = beta * matrix[r, c] + sum over n of a[n, r] * b[n, c]. `a` is packed by
  /// pack_rows, `b` by pack_columns.
  void (*outer)(const ThinPart& part, const float* a, const float* b, float beta, float* matrix);
};

/// Floats of a cache line, and lanes of the widest vector.
inline constexpr int64_t kThinLine = 16;

/// For the instructions that this processor has.
const ThinKernels& thin_kernels();

}  // namespace crema
