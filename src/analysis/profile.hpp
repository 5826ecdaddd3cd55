// Iterations of a net with ranges that profilers see, and their times as a trace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// A span of time of the host, or of the device.
struct TraceEvent {
  std::string name;
  std::string kind;  // "iteration", "pass", "update", or a layer's type
  bool on_device = false;
  double start = 0, duration = 0;  // microseconds since the first iteration began
};

struct Profile {
  int iterations = 5;
  bool with_backward = true;
  /// The update behind the passes; null: none.
  std::function<void()> update = {};
};

/// Runs the iterations, after some without ranges (kFirstIterations). On a device, each iteration,
/// pass, step and update is a range of the device's profiler, and nothing waits between them; the
/// events of passes and steps are there twice, on the host and on the device.
std::vector<TraceEvent> profile_net(Net& net, const Profile& profile);

/// The events in the Trace Event Format.
std::string trace_json(const std::vector<TraceEvent>& events);

}  // namespace crema
