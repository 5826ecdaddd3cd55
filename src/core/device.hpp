// DeviceBackend: memory and libraries of one accelerator. backend/cuda has the implementation for
// CUDA. Without CUDA, backend/none has a stub whose functions throw an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crema/layout.hpp"

namespace crema {

/// Rows of bytes, whose starts are `from_stride` and `to_stride` bytes apart.
struct RowCopy {
  int64_t rows = 0;
  int64_t bytes = 0;  // of a row
  int64_t from_stride = 0, to_stride = 0;
};

class DeviceProfiler;  // core/device_timer.hpp
class DeviceTimer;     // core/device_timer.hpp
class Registry;
struct StridedGather;  // core/strided.hpp

/// All calls run in one stream, in order. Errors of the device are thrown as Error.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  /// Synchronous with respect to the host.
  virtual void copy_to_device(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;
  /// Within the device; the two do not overlap.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_rows(const RowCopy& copy, const void* from, void* to) = 0;
  /// `to`, dense, becomes the elements of the box in `from`.
  virtual void gather(const StridedGather& box, size_t element_bytes, const void* from,
                      void* to) = 0;
  /// sum = the terms, added up in their order: `count` elements of a floating point
  /// type, rounded once. `sum` may be a term.
  static constexpr size_t kMostTerms = 8;
  virtual void add(DType dtype, int64_t count, std::span<const void* const> terms, void* sum) = 0;
  /// Sets `count` elements, f32 or f64, to `value`, or adds it to each.
  virtual void fill(DType dtype, int64_t count, double value, bool adds, void* y) = 0;
  virtual void fill_zero(void* device, size_t bytes) = 0;
  /// Waits until all work given so far is done; late errors of kernels surface here.
  virtual void synchronize() = 0;
  virtual size_t free_bytes() const = 0;
  /// A timer with that many points. The backend outlives it.
  virtual std::unique_ptr<DeviceTimer> make_timer(size_t points) = 0;
  virtual std::unique_ptr<DeviceProfiler> make_profiler() = 0;
  /// Whether its pointers are valid on the host too, as those of the device of the tests.
  virtual bool host_can_read() const { return false; }
};

struct DeviceInfo {
  int index = 0;
  std::string name;
  size_t total_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
};

/// Error when the library was built without CUDA or there is no such device.
std::unique_ptr<DeviceBackend> make_cuda_backend(int index);
/// The device's engines for what is no room's: conversions between layouts.
void register_device_engines(Registry& registry);
/// Empty when there is none; `why` then says why.
std::vector<DeviceInfo> cuda_devices(std::string& why);

/// The library that computes on the CPU beside the BLAS, such as "oneDNN 2.6.3"; "" without one.
std::string cpu_library();

}  // namespace crema
