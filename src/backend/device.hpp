// DeviceBackend: memory and libraries of one accelerator. backend/cuda has the implementation for
// CUDA. Without CUDA, backend/none has a stub whose functions throw an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace crema {

/// All calls run in one stream, in order. Errors of the device are thrown as Error.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  /// Synchronous with respect to the host.
  virtual void copy_to_device(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;
  /// y += x, `count` elements of f32 or f64.
  virtual void add(int64_t count, size_t element_bytes, const void* x, void* y) = 0;
  virtual void fill_zero(void* device, size_t bytes) = 0;
  /// Waits until all work given so far is done; late errors of kernels surface here.
  virtual void synchronize() = 0;
  virtual size_t free_bytes() const = 0;
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
/// Empty when there is none; `why` then says why.
std::vector<DeviceInfo> cuda_devices(std::string& why);

}  // namespace crema
