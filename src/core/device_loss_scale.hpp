// DeviceLossScale: the factor on the losses of a net in the memory of a device. Seeds of backward
// and updates read it there, and updates change it: neither does the host wait for it, nor is it
// part of a record.
#pragma once

#include <type_traits>

#include "core/device.hpp"
#include "core/loss_scaler.hpp"

namespace crema {

class DeviceLossScale {
 public:
  explicit DeviceLossScale(DeviceBackend& backend)
      : backend_(backend),
        state_(static_cast<LossScaleState*>(backend.allocate(sizeof(LossScaleState)))) {}
  ~DeviceLossScale() { backend_.release(state_); }
  DeviceLossScale(const DeviceLossScale&) = delete;
  DeviceLossScale& operator=(const DeviceLossScale&) = delete;

  /// In the memory of the device.
  LossScaleState* state() const { return state_; }
  /// Queued.
  void set(const LossScaleState& state) {
    static_assert(std::is_trivially_copyable_v<LossScaleState>);
    backend_.copy_to_device(state_, &state, sizeof state);
  }

 private:
  DeviceBackend& backend_;
  LossScaleState* state_;
};

}  // namespace crema
