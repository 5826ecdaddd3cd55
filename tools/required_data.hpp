// For commands that run a net on records of its own.
#pragma once

#include "crema/net.hpp"

namespace crema::tools {

/// Error if the net has inputs: a command has no values for them, and they would be zeros.
void require_data(const Net& net);

}  // namespace crema::tools
