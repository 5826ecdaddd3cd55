// Products of many rows with a matrix, in f32: of inner products, whose right factor lies packed
// for the kernel. In inference it is packed once and kept; in training, in each pass.
//
// A panel holds the columns of a few vectors, step by step. A tile of rows and one panel stays in
// registers for some hundred steps, in which the panel comes from the caches of the core. What
// follows the product (ProductEnd) is computed when a tile has its last sums.
//
// Sums are in f32, in an order that depends on the sizes and on the processor's vectors, but not on
// the number of threads.
#pragma once

#include <cstdint>
#include <string>

#include "backend/derived_weights.hpp"
#include "backend/product_end.hpp"
#include "crema/scratch_plan.hpp"

namespace crema {

struct PackedKernels;  // packed_kernels.hpp

/// A matrix, dense and row-major, and who keeps what is derived from it; null: it is packed in each
/// call.
struct PackedMatrix {
  const float* values = nullptr;
  ParameterStorage* storage = nullptr;
};

/// All matrices are dense and row-major. An object serves one thread at a time.
class PackedProduct {
 public:
  /// Of everything that may change its speed. The tuner does not use times of another revision.
  static constexpr const char* kRevision = "2";

  PackedProduct() = default;
  /// For a matrix (rows, columns) and `batch` rows beside it.
  PackedProduct(int64_t batch, int64_t rows, int64_t columns);

  /// out (batch, rows) = a (batch, columns) * transposed matrix, then the end
  void times_transposed(const float* a, const PackedMatrix& matrix, float* out,
                        const ProductEnd& end);
  /// out (batch, columns) = a (batch, rows) * matrix, then the end
  void times(const float* a, const PackedMatrix& matrix, float* out, const ProductEnd& end);

  /// Of the packed matrix, for times_transposed() or times().
  size_t packed_bytes(bool transposed) const;
  /// Adds what a call needs; if `packs`, one without a storage.
  void plan_scratch(ScratchPlan& plan, bool transposed, bool packs) const;

 private:
  /// The matrix as a right factor: (steps, columns), which lies transposed in memory or not.
  struct Right {
    bool transposed;
    int64_t steps, columns;
  };
  const float* packed(const Right& right, const PackedMatrix& matrix, DerivedWeights& kept);
  void pack(const Right& right, const float* from, float* to) const;
  void multiply(const Right& right, const float* a, const float* packed, float* out,
                const ProductEnd& end) const;
  int64_t packed_count(const Right& right) const;

  const PackedKernels* kernels_ = nullptr;
  int64_t batch_ = 0, rows_ = 0, columns_ = 0;
  DerivedWeights transposed_, plain_;
};

/// c (rows, columns) = the end of what it holds, on the threads: for products by a library.
void finish_product(int64_t rows, int64_t columns, float* c, const ProductEnd& end);

}  // namespace crema
