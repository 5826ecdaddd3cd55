// Products of matrices on a device, with what a library computes in the same pass.
//
// A DeviceProduct says what is to be computed, for row-major matrices. A ProductCall is the same in
// the terms of a library that stores columns: our (m, n) is its (n, m), and c' = op(b)' op(a)'. So
// its a is our b. Both are plain values, which the tests of the CPU compute.
//
// The functions are in backend/cuda (cuBLASLt), and in backend/none for the device of the tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "crema/arithmetic.hpp"
#include "crema/error.hpp"

namespace crema {

/// What is computed beside the product. Vectors have the type of the result.
enum class ProductEnding : uint8_t {
  none,
  bias,       // one value a column of c is added
  relu,       // c = max(c, 0)
  bias_relu,  // both, in this order
  sums_of_a,  // the sums of op(a) over k, one a row of c
  sums_of_b,  // the sums of op(b) over k, one a column of c
};

/// c = ending(scale * op(a) op(b) + beta c). op(a) is (m, k), op(b) (k, n), c (m, n), all dense and
/// row-major; a transposed matrix lies in memory as (k, m) or (n, k).
struct DeviceProduct {
  DType factors = DType::bf16;  // f32, bf16 or f16
  DType result = DType::bf16;   // that of the factors, or f32
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  float scale = 1;
  ProductEnding ending = ProductEnding::none;
  /// Products of one shape. Elements from one matrix to the next; 0: all have the same.
  int64_t batch = 1;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;

  bool operator==(const DeviceProduct&) const = default;
};

/// A matrix of columns, `leading` elements from one to the next.
struct ColumnMatrix {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0, leading = 1;
  int64_t batch = 1, stride = 0;

  bool operator==(const ColumnMatrix&) const = default;
};

/// d (rows, columns) = ending(scale * op(a) op(b) + beta d). A bias has one value a row of d.
struct ProductCall {
  bool transpose_a = false, transpose_b = false;
  ColumnMatrix a, b, d;
  float scale = 1;
  ProductEnding ending = ProductEnding::none;  // of this a and this b
};

inline ProductCall call_of(const DeviceProduct& p) {
  // Rows of our matrix are columns of the library's.
  const auto seen = [&](DType dtype, int64_t rows, int64_t columns, int64_t stride) {
    return ColumnMatrix{dtype, columns, rows, std::max<int64_t>(columns, 1), p.batch, stride};
  };
  ProductEnding ending = p.ending;
  if (p.ending == ProductEnding::sums_of_a) ending = ProductEnding::sums_of_b;
  if (p.ending == ProductEnding::sums_of_b) ending = ProductEnding::sums_of_a;
  return {.transpose_a = p.transpose_b,
          .transpose_b = p.transpose_a,
          .a = seen(p.factors, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b_stride),
          .b = seen(p.factors, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a_stride),
          .d = seen(p.result, p.m, p.n, p.c_stride),
          .scale = p.scale,
          .ending = ending};
}

/// Memory of a device. With beta 0, what was in c is not read.
struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  float beta = 0;
  void* vector = nullptr;  // of the ending: the bias, which is read, or sums, which are written
};

/// A product by one algorithm, ready to run.
class ProductPlan {
 public:
  virtual ~ProductPlan() = default;
  /// Of the device's scratch memory.
  virtual size_t scratch_bytes() const { return 0; }
  /// In the stream of the device. Can be recorded.
  virtual void run(const ProductOperands& operands) = 0;
};

/// The library that multiplies, with its device and all versions that times depend on.
std::string product_library(DeviceBackend& backend);

/// The names of the library's algorithms for a product that has elements and a k, the likely
/// fastest first. Each keeps sums in f32, takes at most workspace_limit bytes of scratch memory
/// and, if `deterministic`, gives the same bits every time. Empty if there is none; `why` then says
/// why.
std::vector<std::string> product_algorithms(DeviceBackend& backend, const DeviceProduct& product,
                                            const Arithmetic& arithmetic, std::string& why);

/// By the algorithm of that name, which may come from a product of another shape. Null if it cannot
/// compute this one under the same rules; `why` then says why.
std::unique_ptr<ProductPlan> make_product_plan(DeviceBackend& backend, const DeviceProduct& product,
                                               const Arithmetic& arithmetic,
                                               const std::string& algorithm, std::string& why);

}  // namespace crema
