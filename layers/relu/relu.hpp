// ReLU of a number, for layers that apply a ReLU in their tail.
#pragma once

#include <optional>

#include "core/functor.hpp"
#include "crema/layer.hpp"

namespace crema {
namespace relu_room {
#include "layers/relu/relu_math.hpp"
}  // namespace relu_room

using ReLUMath = relu_room::Math;

}  // namespace crema
