// Iterations of a net that are recorded: what each thread did, what a device did, and ranges that
// the profilers of a device see.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/device_timer.hpp"
#include "core/spans.hpp"
#include "crema/net.hpp"

namespace crema {

struct Profile {
  int iterations = 5;
  bool with_backward = true;
  /// The update behind the passes; null: none.
  std::function<void()> update = {};
  /// Runs that many whole iterations, with a span each, in place of passes of the net and `update`.
  /// On a device, the net runs without CUDA graphs (NetOptions::graphs).
  std::function<void(int iterations)> iterate = {};
};

/// Nanoseconds of span_clock(). The first iteration begins at `start`.
struct ProfileRun {
  int iterations = 0;
  int64_t start = 0;
  std::vector<ThreadSpans> threads;   // the first one runs the net
  std::vector<SpanRecord> on_device;  // by points in its queue: those of iterations and inside them
  std::vector<DeviceActivity> activities;  // kernels and copies, where the device tells of them
  std::string no_activities;               // why it does not; "" where it does, and on the CPU
};

/// Runs the iterations, after some that are not recorded (kFirstIterations). On a device, spans of
/// the calling thread are ranges of the device's profiler, and nothing waits between them.
ProfileRun profile_net(Net& net, const Profile& profile);

/// Notes the memory that the process has as a counter, behind an iteration. Nothing where nothing
/// is recorded.
void record_memory();

}  // namespace crema
