// Layer types that are another type with its settings written in another way.
#pragma once

#include "crema/layer.hpp"

namespace crema {

/// What a layer is made of, with other settings. `param` has to live until the layer is made.
inline LayerInit with_param(const LayerInit& init, const LayerParameter& param) {
  return {param, init.context, init.run, init.phase, init.dtype, init.activations, init.trains};
}

}  // namespace crema
