// The products of a batch of rows with one matrix, which inner products and recurrent layers are
// made of: by a GEMM (that of a side: layer_support/gemm.hpp), or on the CPU in f32 each by the
// fastest one of the BLAS, ThinProduct (backend/cpu/thin_product.hpp) and PackedProduct
// (backend/cpu/packed_product.hpp).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/packed_product.hpp"
#include "backend/cpu/thin_product.hpp"
#include "layer_support/tuning.hpp"

namespace crema {

/// The matrix, dense and row-major, is (rows, columns).
struct ProductSizes {
  int64_t batch, rows, columns;
};

/// The BLAS: c = op(a) * op(b) + beta * c for dense row-major matrices; op(a) is (m, k), op(b)
/// (k, n), c (m, n).
template <class T>
struct HostGemm {
  void operator()(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
                  const T* b, T beta, T* c) const {
    if (m == 1 && !transpose_a) {
      gemv<T>(!transpose_b, transpose_b ? n : k, transpose_b ? k : n, 1, b, a, beta, c);
    } else {
      gemm<T>(transpose_a, transpose_b, m, n, k, 1, a, b, beta, c);
    }
  }
};

/// By a Gemm with the call of HostGemm.
template <class T, class Gemm>
struct MatrixProducts {
  Gemm gemm;
  ProductSizes sizes;

  /// out (batch, rows) = a (batch, columns) * transposed matrix
  void times_transposed(const T* a, const T* matrix, T* out) const {
    gemm(false, true, sizes.batch, sizes.rows, sizes.columns, a, matrix, T{0}, out);
  }
  /// out (batch, columns) = a (batch, rows) * matrix
  void times(const T* a, const T* matrix, T* out) const {
    gemm(false, false, sizes.batch, sizes.columns, sizes.rows, a, matrix, T{0}, out);
  }
  /// matrix = beta * matrix + transposed a (batch, rows) * b (batch, columns)
  void outer(const T* a, const T* b, T beta, T* matrix) const {
    gemm(true, false, sizes.rows, sizes.columns, sizes.batch, a, b, beta, matrix);
  }
};

/// A method of MatrixProducts.
enum class Product : uint8_t { times_transposed, times, outer };
inline constexpr size_t kProducts = 3;

/// Who computes a product: the BLAS, ThinProduct or PackedProduct. PackedProduct has no outer().
enum class ProductKernel : uint8_t { library, thin, packed };

/// The methods of MatrixProducts, each by one of the ways.
class FasterProducts {
 public:
  /// All by the BLAS until choose() says otherwise. ThinProduct uses at most `threads`.
  FasterProducts(ProductSizes sizes, int threads);

  void choose(Product product, ProductKernel way);
  void choose(Product product, bool by_thin) {
    choose(product, by_thin ? ProductKernel::thin : ProductKernel::library);
  }
  /// Who keeps the packed form of the matrix; null: it is packed in each call.
  void keep_in(ParameterStorage* storage) { storage_ = storage; }

  void times_transposed(const float* a, const float* matrix, float* out,
                        const ProductEnd& end = {});
  void times(const float* a, const float* matrix, float* out, const ProductEnd& end = {});
  void outer(const float* a, const float* b, float beta, float* matrix);

  /// Of scratch memory of its own, and, if it is kept, of the packed form.
  size_t bytes(bool keeps = false) const;
  void plan_scratch(ScratchPlan& plan, bool keeps) const;

 private:
  ProductKernel way(Product product) const { return ways_[static_cast<size_t>(product)]; }

  MatrixProducts<float, HostGemm<float>> library_;
  int threads_;
  ThinProduct thin_;      // made when the first product is chosen to be by it
  PackedProduct packed_;  // likewise
  ParameterStorage* storage_ = nullptr;
  std::array<ProductKernel, kProducts> ways_ = {};
};

/// What is chosen for a product.
struct ProductChoice {
  std::string key;    // of the tuner, for take_choice()
  TunedChoice tuned;  // its seconds are those of one product
};

/// Chooses between the ways by measuring.
class ProductTrial {
 public:
  /// `matrix`, f32, has the given sizes; its values are read, and not changed. Other memory is
  /// allocated at the first measurement. `storage`: who keeps the packed form of the matrix; null:
  /// packing it is a part of what is measured.
  ProductTrial(Context& context, int64_t batch, const Tensor& matrix,
               ParameterStorage* storage = nullptr);
  /// The fastest; without tuning the first one.
  ProductChoice choose(Product product, const std::vector<ProductKernel>& ways);
  /// The BLAS or ThinProduct; without tuning the latter if `probably_thin`.
  ProductChoice choose(Product product, bool probably_thin);

 private:
  void run(Product product, ProductKernel way);

  Context& context_;
  ProductSizes sizes_;
  const Tensor& matrix_;
  ParameterStorage* storage_;
  Tensor of_rows_{Shape{0}}, of_columns_{Shape{0}}, gradient_{Shape{0}};
  FasterProducts products_;
};

/// Takes the choice of the key, and tells the tuner of the context. Returns its name for a summary:
/// "gemm", "thin", "packed", or "kept" where the packed form is kept. `keeps`: whether that was one
/// of the ways.
std::string take_choice(Context& context, ProductSizes sizes, Product product,
                        const std::string& key, FasterProducts& products, bool keeps = false);

}  // namespace crema
