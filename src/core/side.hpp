// Side: the host or a device, for code that is the same for both.
#pragma once

#include "crema/tensor.hpp"

namespace crema {

class Side {
 public:
  /// The host: the threads of the calling thread's ThreadScope.
  Side() = default;
  explicit Side(DeviceBackend& device) : device_(&device) {}

  /// Null: the host.
  DeviceBackend* device() const { return device_; }

  /// A pointer into the memory of the side, for reading. Copies from the other side if that copy is
  /// newer.
  template <class T>
  const T* read(const Tensor& tensor) const {
    return device_ != nullptr ? tensor.device<T>(*device_) : tensor.host<T>();
  }
  /// For reading and writing.
  template <class T>
  T* change(Tensor& tensor) const {
    return device_ != nullptr ? tensor.device_mut<T>(*device_) : tensor.host_mut<T>();
  }
  /// For callers that overwrite every element: nothing is copied.
  template <class T>
  T* overwrite(Tensor& tensor) const {
    return device_ != nullptr ? tensor.device_overwrite<T>(*device_) : tensor.host_overwrite<T>();
  }
  /// The same for a tensor of any type.
  const std::byte* read_bytes(const Tensor& tensor) const {
    return static_cast<const std::byte*>(tensor.read_bytes(device_));
  }
  std::byte* overwrite_bytes(Tensor& tensor) const {
    return static_cast<std::byte*>(tensor.overwrite_bytes(device_));
  }

 private:
  DeviceBackend* device_ = nullptr;
};

}  // namespace crema
