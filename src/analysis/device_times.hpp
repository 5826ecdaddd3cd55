// How long a net takes on a device, by points in the device's stream. Nothing waits between layers:
// all points are read at the end.
#pragma once

#include <functional>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// Medians over the iterations, in ms. What the device waits for the host is part of them: a layer
/// whose kernels are shorter than their launches takes the time of the launches.
struct DeviceTimes {
  std::vector<double> forward, backward;         // of each step
  double forward_total = 0, backward_total = 0;  // of all steps
  double whole_forward = 0, whole_backward = 0;  // without points between the steps
  double iteration = 0;       // mean of whole iterations one behind the other; 0: none were run
  double host_iteration = 0;  // the same by the host's clock
};

struct DeviceTiming {
  int iterations = 10;
  bool with_backward = true;
  /// Runs that many whole iterations; null: passes of the net are whole iterations.
  std::function<void(int iterations)> iterate = {};
};

/// Iterations that run first, which take memory, choose kernels and record graphs, and do not
/// count.
inline constexpr int kFirstIterations = 3;

/// The net is one of a context on a device.
DeviceTimes time_on_device(Net& net, const DeviceTiming& timing);

/// What a device reaches at the best. 0: not known.
struct DeviceCeilings {
  double copy_bytes = 0;               // a second, read and written
  double f32 = 0, tf32 = 0, bf16 = 0;  // operations a second, of large products
};

/// Takes about half a second, and memory that it gives back.
DeviceCeilings measure_ceilings(DeviceBackend& backend);

/// What limits a step, and how near to it the step is.
struct CeilingShare {
  double share = 0;          // of the ceiling; 0: not known
  const char* ceiling = "";  // "copy", "f32", "tf32" or "bf16"
};

/// The greater of two shares: that of moving `bytes`, and that of `flops` in products of the step's
/// type, in `milliseconds`. `tf32`: f32 is multiplied in TF32.
CeilingShare share_of(const DeviceCeilings& ceilings, const NetStep& step, bool tf32,
                      double milliseconds, double bytes, double flops);

}  // namespace crema
