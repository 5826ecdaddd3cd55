// What is said of a layer type that is not there.
#pragma once

#include "crema/error.hpp"

namespace crema {

class LayerParameter;

/// The error for a layer whose type the registry does not have, with the nearest known name.
Error unknown_type(const LayerParameter& param);

}  // namespace crema
