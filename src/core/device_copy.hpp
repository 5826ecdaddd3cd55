// DeviceCopy: values of a parameter in the order and type of a kernel, on the device. Nothing goes
// through the host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/access_log.hpp"
#include "core/device.hpp"
#include "crema/parameter.hpp"

namespace crema {

class DeviceCopy {
 public:
  DeviceCopy() = default;
  /// `form` names type and order of `bytes` bytes.
  DeviceCopy(std::string form, size_t bytes) : form_(std::move(form)), bytes_(bytes) {}

  size_t bytes() const { return bytes_; }
  /// Where the values change between passes: memory of this object, which the caller writes.
  void* own(DeviceBackend& backend) {
    if (!own_.has_memory()) own_ = Tensor(Shape{static_cast<int64_t>(bytes_)}, DType::u8);
    return own_.overwrite<uint8_t>(&backend);
  }
  /// Else: make(values, copy) writes it once for each version of the values. All kernels that name
  /// the same form share it.
  template <class Make>
  const void* get(DeviceBackend& backend, ParameterStorage& storage, const Make& make) {
    // Asked for in each pass, so that a record of the pass knows what it follows from.
    kept_ = storage.derived(form_, [&](const Tensor& values) {
      if (backend.access_log() != nullptr) throw StaleRecord("copies weights in each pass");
      Tensor copy(Shape{static_cast<int64_t>(bytes_)}, DType::u8);
      make(values.read<float>(&backend), copy.overwrite<uint8_t>(&backend));
      return copy;
    });
    return kept_->read<uint8_t>(&backend);
  }

 private:
  std::string form_;
  size_t bytes_ = 0;
  Tensor own_{Shape{0}, DType::u8};
  std::shared_ptr<const Tensor> kept_;
};

}  // namespace crema
