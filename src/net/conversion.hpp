// The layer that formats.cpp puts between layers whose formats differ.
#pragma once

#include "crema/layer.hpp"

namespace crema {

/// top = bottom in the top's format, and back for the gradient. `name` is the blob's.
std::unique_ptr<Layer> make_conversion(const std::string& name, Context& context);

}  // namespace crema
