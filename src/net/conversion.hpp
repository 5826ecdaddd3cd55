// The layer that layouts.cpp puts between layers whose layouts differ.
#pragma once

#include "crema/layer.hpp"

namespace crema {

/// top = bottom in the top's layout, and back for the gradient. `name` is the blob's, `dtype` the
/// net's.
std::unique_ptr<Layer> make_conversion(const std::string& name, Context& context,
                                       const RunState& run, DType dtype);

}  // namespace crema
