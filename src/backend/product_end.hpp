// What follows a product of matrices in the same pass, in f32.
#pragma once

#include <cstdint>

namespace crema {

/// y = activation(y + bias) + summand, for y (rows, columns).
struct ProductEnd {
  enum class Activation : uint8_t { none, relu, gelu, gelu_by_tanh };

  const float* bias = nullptr;  // one a column; null: none
  Activation activation = Activation::none;
  float slope = 0;                 // relu: for negative values
  const float* summand = nullptr;  // (rows, columns), dense; null: none

  bool any() const {
    return bias != nullptr || activation != Activation::none || summand != nullptr;
  }
};

}  // namespace crema
