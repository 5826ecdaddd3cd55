// Tail: operations on the top of a layer that the layer's kernel applies while it writes the top.
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

class Layer;
class Parameter;

/// y = scale * x + shift, with one of each for each channel (axis 1).
struct ChannelAffine {
  std::vector<double> scale, shift;
};

/// One operation on the top of a layer. The engine of the layer applies it while it writes the top.
struct TailStep {
  enum class Kind : uint8_t {
    relu,          // y = x where x > 0, else slope * x
    affine,        // y = scale * x + bias, with one scale and one bias for each channel (axis 1)
    stored,        // y = scale * x + shift, likewise; both are Layer::stored_affine() of `layer`
    add,           // y = x + another bottom of the same shape
    gelu,          // y = x * P(X <= x) for a standard normal X
    gelu_by_tanh,  // the same, approximated as GELU's `approximate: TANH` does
  };
  Kind kind = Kind::relu;
  float slope = 0;               // relu: for negative values; not below 0
  Parameter* scale = nullptr;    // affine: (C); null means 1
  Parameter* bias = nullptr;     // affine: (C); null means 0
  const Layer* layer = nullptr;  // stored
  int bottom = -1;               // add: the index of the other bottom

  bool operator==(const TailStep&) const = default;
};
/// Operations in the order in which they are applied.
using Tail = std::vector<TailStep>;

}  // namespace crema
