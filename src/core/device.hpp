// DeviceBackend: memory and libraries of one accelerator. backend/cuda has the implementation for
// CUDA. Without CUDA, backend/none has a stub whose functions throw an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

class AccessLog;       // core/access_log.hpp
class DeviceProfiler;  // core/device_timer.hpp
class DeviceTimer;     // core/device_timer.hpp
class Registry;
struct StridedGather;  // core/strided.hpp

/// A device works off two queues side by side, each in order: kernels and copies of all kinds in
/// one, uploads of batches in the other.
enum class DeviceQueue : uint8_t { work, upload };

/// A point in a queue: what was queued before the last DeviceBackend::record() of it.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

/// Work that the device has recorded, with the addresses and numbers that it was queued with.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// All calls but upload() queue their work in DeviceQueue::work, and return before it is done
/// unless they say otherwise. Errors of the device are thrown as Error.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  /// The host may change its memory at once. Waits for the device where many bytes are copied.
  virtual void copy_to_device(void* device, const void* host, size_t bytes) = 0;
  /// Waits until the contents are there.
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

  /// Host memory that the device copies from and to while the host goes on.
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(void* pointer) noexcept = 0;
  /// From pinned memory, in DeviceQueue::upload.
  virtual void upload(void* device, const void* pinned, size_t bytes) = 0;
  /// To pinned memory.
  virtual void download(void* pinned, const void* device, size_t bytes) = 0;
  /// copy(), which does nothing if *stop, memory of the device, is not 0 by then.
  virtual void copy_unless(const int32_t* stop, void* to, const void* from, size_t bytes) = 0;

  virtual std::unique_ptr<DeviceEvent> make_event() = 0;
  virtual void record(DeviceEvent& event, DeviceQueue queue) = 0;
  /// What is queued from now on waits for the event; the host does not.
  virtual void queue_wait(DeviceQueue queue, const DeviceEvent& event) = 0;
  /// The host waits.
  virtual void wait(const DeviceEvent& event) = 0;

  /// Between begin_capture() and end_capture(), work is recorded and not done. What waits, takes
  /// memory or copies from or to the host is an Error meanwhile, as is a kernel that cannot be
  /// recorded; call abandon_capture() then. Memory that is released meanwhile stays until the end.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<DeviceGraph> end_capture() = 0;
  virtual void abandon_capture() noexcept = 0;
  virtual void launch(DeviceGraph& graph) = 0;
  /// Another number once memory that graphs may use beside that of tensors, such as scratch memory,
  /// has been replaced: earlier graphs are of no use then.
  virtual uint64_t generation() const { return 0; }
  /// Takes scratch memory in advance.
  virtual void reserve_scratch(size_t /*bytes*/) {}

  /// Accesses to memory of the device are noted there, if it is not null.
  AccessLog* access_log() const { return access_log_; }
  void set_access_log(AccessLog* log) { access_log_ = log; }

  /// A timer with that many points. The backend outlives it.
  virtual std::unique_ptr<DeviceTimer> make_timer(size_t points) = 0;
  virtual std::unique_ptr<DeviceProfiler> make_profiler() = 0;
  /// Whether its pointers are valid on the host too, as those of the device of the tests.
  virtual bool host_can_read() const { return false; }
  /// For such a device: queues a loop over its memory.
  virtual void queue_loop(const std::function<void()>& loop) { loop(); }

 private:
  AccessLog* access_log_ = nullptr;
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
