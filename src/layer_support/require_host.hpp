// What host code of a pass calls before it runs (layer_support/passes.hpp).
#pragma once

#include "core/move.hpp"
#include "layer_support/sides.hpp"

namespace crema {

/// Loops on the host cannot follow pointers into the memory of a device, unless it is a test's: an
/// Error otherwise. Never inline: scripts/check_passes finds by this symbol what g++ compiled of
/// passes.
void require_host(const ComputeDevice& device);

/// Queues the loop on the device of the tests.
template <class Loop>
void queue_for_test(const DeviceSide& device, const Loop& loop) {
  device.backend()->queue_loop(loop);
}

/// On the device of the tests, queues the loop, which then need not run here: true. On the host:
/// false.
template <class Side, class Loop>
bool queued_for_test(const Side& device, const Loop& loop) {
  if constexpr (kMayBeDevice<Side>) {
    if (device.on_host()) return false;
    queue_for_test(DeviceSide(device), loop);
    return true;
  }
  return false;
}

}  // namespace crema
