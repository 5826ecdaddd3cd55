// What measurements and profilers need of a device: points in time, names of ranges, and matrix
// products at its full speed. A DeviceBackend makes the first two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace crema {

class DeviceBackend;

/// Points in the stream of a device. To record one takes no waiting, so the work between two points
/// runs as it does without them.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;

  /// Records a point, by its index, behind all work that was given so far. A later call moves it.
  virtual void record(size_t point) = 0;
  /// Milliseconds from one point to a later one. Both were recorded, and
  /// DeviceBackend::synchronize() called since.
  virtual double milliseconds(size_t from, size_t to) const = 0;
};

/// A kernel, or a copy or filling of memory, of a device.
struct DeviceActivity {
  std::string name;
  const char* kind = "";       // "kernel", "copy" or "fill"
  uint32_t queue = 0;          // the device's number of the stream
  int64_t begin = 0, end = 0;  // nanoseconds of std::chrono::steady_clock
  size_t bytes = 0;            // that are copied or filled; 0: a kernel
};

/// Tells profilers, such as Nsight Systems, what runs. Without one, the calls cost next to nothing.
class DeviceProfiler {
 public:
  virtual ~DeviceProfiler() = default;

  /// Profilers that were told to wait for it record from start() to stop().
  virtual void start() = 0;
  virtual void stop() = 0;
  /// What the calling thread does up to the matching end_range() is shown under the name. Ranges
  /// nest.
  virtual void begin_range(const std::string& name) = 0;
  virtual void end_range() = 0;

  /// Notes what the device does from here to activities(). Returns why it cannot; "" if it can.
  virtual std::string record_activities() { return "the device does not tell of its kernels"; }
  virtual std::vector<DeviceActivity> activities() { return {}; }
};

/// How a product is computed: in f32, in f32 with factors that are rounded to TF32, or with factors
/// and result in bf16.
enum class ProductKind : uint8_t { f32, tf32, bf16 };

/// c = a * b in the backend's stream; all are square, of n rows. False: the device has no such
/// product, and nothing was done. In backend/cuda, with a stub in backend/none.
bool multiply_at_full_speed(DeviceBackend& backend, ProductKind kind, int64_t n, const void* a,
                            const void* b, void* c);

}  // namespace crema
