// Batches of other sizes than those that a net was planned for.
#pragma once

#include "crema/net.hpp"

namespace crema {

/// Drops all plans, with the memory that they hold, then plans for the next batches of the data
/// sources, for which this waits. Error where a layer refuses their shapes, MemoryError as a pass;
/// the next pass then plans again.
void plan_next_batches(Net& net);

}  // namespace crema
