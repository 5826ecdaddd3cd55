// What host code of a pass calls before it runs (layer_support/passes.hpp).
#pragma once

#include "core/move.hpp"

namespace crema {

/// Loops on the host cannot follow pointers into the memory of a device, unless it is a test's: an
/// Error otherwise. Never inline: scripts/check_passes finds by this symbol what g++ compiled of
/// passes.
void require_host(const ComputeDevice& device);

/// On the device of the tests, queues the loop, which then need not run here: true. On the host:
/// false.
template <class Side, class Loop>
bool queued_for_test(const Side& device, const Loop& loop) {
  if (device.on_host()) return false;
  device.backend()->queue_loop(loop);
  return true;
}

}  // namespace crema
