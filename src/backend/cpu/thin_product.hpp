// Products of a few rows with a big matrix, as inner products of small batches are.
//
// A library packs the matrix for its kernels: it is read, written and read again, although each of
// its values meets only `batch` others. Here the few rows are packed instead, and the matrix is
// read (or, for its gradient, written) once, where it lies. Up to four rows are not packed either
// where the sums run along the rows of the matrix.
//
// Sums are in f32, in an order that depends on the sizes and on the processor's vectors, but not on
// the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "crema/tensor.hpp"

namespace crema {

struct ThinKernels;  // thin_kernels.hpp

/// All matrices are dense and row-major, of f32. One call at a time: they share scratch memory.
class ThinProduct {
 public:
  /// Of everything that may change its speed. The tuner does not use times of another revision.
  static constexpr const char* kRevision = "3";

  ThinProduct() = default;
  /// For a matrix (rows, columns) with at least one column, and `batch` rows beside it. times(),
  /// which needs memory for each thread, uses at most `threads` of them; results do not depend on
  /// it.
  ThinProduct(int64_t batch, int64_t rows, int64_t columns, int threads);

  /// out (batch, rows) = a (batch, columns) * transposed matrix
  void times_transposed(const float* a, const float* matrix, float* out);
  /// out (batch, columns) = a (batch, rows) * matrix
  void times(const float* a, const float* matrix, float* out);
  /// matrix = beta * matrix + transposed a (batch, rows) * b (batch, columns); with beta 0, what
  /// was there does not matter.
  void outer(const float* a, const float* b, float beta, float* matrix);

  /// Of scratch memory.
  size_t bytes() const { return scratch_.bytes(); }

 private:
  const ThinKernels* kernels_ = nullptr;
  int64_t batch_ = 0, rows_ = 0, columns_ = 0;
  int64_t packed_rows_ = 0;  // those of whole tiles
  int64_t chunk_ = 0;        // columns of which all rows of the batch stay in cache
  int threads_ = 1;
  Tensor scratch_;
};

}  // namespace crema
