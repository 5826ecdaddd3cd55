// What the steps of a net read and write, where they run, and what moves between host and device
// for them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

struct StepTraffic {
  /// Bytes that a pass reads and writes at the least, each value and parameter once.
  size_t forward = 0, backward = 0;
  /// Of a net on a device: the step runs on the host. Data sources do, and their tops go to the
  /// device.
  bool on_host = false;
  /// What a step on the device computes or checks on the host (Layer::host_part()); "": nothing.
  std::string host_part;
  /// Bytes that move for the step from the device to the host, and to the device, in an iteration:
  /// a forward pass, and if the net trains a backward pass and an update. Those of late shapes
  /// (TopShapes::from_values) are bounds.
  size_t to_host = 0, to_device = 0;

  bool is_on_host() const { return on_host || !host_part.empty(); }
};

/// One entry for each of Net::steps().
std::vector<StepTraffic> step_traffic(const Net& net);

/// Where a step of a net on a device runs, and what moves for it: "on the host, 1.2 MB from the
/// device and 0.3 MB to it". "" for one that runs on the device and moves nothing.
std::string placement(const StepTraffic& step);

}  // namespace crema
