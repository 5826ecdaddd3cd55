// Values sorted on a device.
#pragma once

#include "core/move.hpp"

namespace crema {

/// Queued: sorts `count` values, none of them NaN, so that they rise. Tiles are sorted by a block
/// each, in memory that its lanes share, and merged by passes over pairs.
void sort_values(const ComputeDevice& device, int64_t count, double* values);

}  // namespace crema
