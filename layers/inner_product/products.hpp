// The products of an InnerProduct on a device, and its engine there.
//
//   forward   y  = relu(x W' + b)    x (batch, inputs), W (outputs, inputs), y (batch, outputs)
//   data      dx = dy W              dy: through the ReLU, which an own pass undoes
//   weights   dW = dW + dy' x        in f32, whatever x and dy are
//
// or with W (inputs, outputs) if it is transposed. In each pass the library may compute what stands
// around the product: bias and ReLU behind that of forward, and the sums of dy, which are the
// gradient of the bias, beside that of the weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/row_ends.hpp"
#include "crema/registry.hpp"
#include "layer_support/product_choice.hpp"

namespace crema {

enum class InnerProductPass : uint8_t { forward, data, weights };

struct InnerProductProblem {
  int64_t batch = 0, inputs = 0, outputs = 0;
  bool transposed = false;
  bool has_bias = false;
  std::optional<float> relu = {};  // the slope
  bool bias_learns = false;
  DType dtype = DType::f32;  // of x, y, and the weights and the bias that the library reads

  /// The product of a pass. Forward has x as a and W as b, data dy and W, weights dy and x or, for
  /// transposed ones, x and dy.
  DeviceProduct product(InnerProductPass pass, ProductEnding ending = ProductEnding::none) const;
  /// What surrounds it, as far as the library can compute that.
  ProductEnding ending(InnerProductPass pass) const;
  /// What an own pass does behind a product of forward.
  struct Rest {
    bool bias = false;
    std::optional<float> relu = {};
    bool any() const { return bias || relu; }
  };
  Rest rest(ProductEnding ending) const;
  /// With what the library can compute, then with own passes for all of it. `backend` outlives
  /// them.
  std::vector<ProductWay> ways(InnerProductPass pass, DeviceBackend& backend) const;
  /// Products that differ in the batch are of one family.
  TunedProblem tuned(InnerProductPass pass, const std::string& library) const;
  /// The rows of y.
  DeviceRows result() const { return {dtype, batch, outputs}; }
};

/// Adds the engine "cuda": by the library of products in f32 and 16 bits, and for what that refuses
/// by the passes of the layer, a TwoSidedLayer. `problem` describes the layer; it sets neither
/// dtype nor bias_learns.
void add_inner_product_engine(Registry& registry, const std::string& type,
                              InnerProductProblem (*problem)(const Layer& layer));

}  // namespace crema
