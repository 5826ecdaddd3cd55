// The products of a MatMul on a device, and its engine there.
//
// Matrices of a batch are multiplied by one call. Where all share one B, and the matrices A are not
// transposed, they are one tall matrix: then the gradient of B is one product as well.
#pragma once

#include <vector>

#include "backend/products.hpp"
#include "crema/registry.hpp"
#include "layer_support/tuning.hpp"

namespace crema {

enum class MatMulPass : uint8_t { forward, of_a, of_b };

struct MatMulProblem {
  int64_t batch = 0, m = 0, n = 0, k = 0;  // of op(A) (m, k) and op(B) (k, n)
  bool transpose_a = false, transpose_b = false;
  bool shared = false;  // one B for all
  float scale = 1;
  DType dtype = DType::f32;

  /// Which operands a product takes.
  enum class Operand : uint8_t { a, b, dy };
  struct Pass {
    DeviceProduct product;
    Operand first, second;
  };
  /// The product of a pass, whose result is y, dA or dB. Not for what needs several ones.
  Pass pass(MatMulPass of) const;
  /// Whether a pass adds up products that are no single one.
  bool needs_several(MatMulPass of) const;
  bool is_empty() const { return batch * m * n * k == 0; }
  TunedProblem tuned(MatMulPass of, const std::string& library) const;
};

/// Adds the engine "cuda": by the library of products in f32 and 16 bits, and for what that refuses
/// by the passes of the layer, a TwoSidedLayer. `problem` describes the layer, but for dtype.
void add_mat_mul_engine(Registry& registry, const std::string& type,
                        MatMulProblem (*problem)(const Layer& layer));

}  // namespace crema
