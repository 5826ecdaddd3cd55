// The conversion layer. layouts.cpp adds it between layers whose layouts differ.
#pragma once

#include "crema/layer.hpp"

namespace crema {

/// Makes a layer that copies the bottom to the layout of the top, and in backward the diff of the
/// top to the layout of the bottom. `name`: of the blob; `dtype`: of the net.
std::unique_ptr<Layer> make_conversion(const std::string& name, Context& context,
                                       const RunState& run, DType dtype);

}  // namespace crema
