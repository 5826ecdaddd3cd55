// StagedUpload: contents that the host makes anew again and again for a device, without a wait: the
// host fills one of two pinned buffers while the other one is copied, and the copy goes on beside
// the kernels that still read the contents before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.hpp"

namespace crema {

class StagedUpload {
 public:
  /// Of `bytes`. If *stop, memory of the device, is not 0, contents do not reach their place.
  StagedUpload(DeviceBackend& backend, size_t bytes, const int32_t* stop);
  ~StagedUpload();
  StagedUpload(const StagedUpload&) = delete;
  StagedUpload& operator=(const StagedUpload&) = delete;

  size_t bytes() const { return bytes_; }
  /// The contents on the host.
  void* host() const { return sides_[side_].pinned; }
  /// For contents that are overwritten: the other buffer becomes host().
  void turn();
  /// Waits until host() may be changed.
  void settle();
  /// Queued: `to`, memory of the device, becomes host().
  void upload(void* to);
  /// The same in two steps: the first bytes of host() come to memory of the device, which work
  /// reads that is queued between them.
  const void* arrive(size_t bytes);
  void taken();

 private:
  struct Side {
    void* pinned = nullptr;
    std::unique_ptr<DeviceEvent> uploaded;
    bool in_use = false;  // its last upload was not waited for
  };

  DeviceBackend& backend_;
  size_t bytes_;
  const int32_t* stop_;
  std::array<Side, 2> sides_;
  size_t side_ = 0;
  void* arrived_ = nullptr;  // memory of the device between the queues
  std::unique_ptr<DeviceEvent> taken_;
  bool has_taken_ = false;
};

}  // namespace crema
