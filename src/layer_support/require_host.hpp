// What host code of a pass calls before it runs (layer_support/passes.hpp).
#pragma once

#include "core/move.hpp"

namespace crema {

/// Loops on the host cannot follow pointers into the memory of a device, unless it is a test's: an
/// Error otherwise. Never inline: scripts/check_passes finds by this symbol what g++ compiled of
/// passes.
void require_host(const ComputeDevice& device);

}  // namespace crema
