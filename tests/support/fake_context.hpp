// Contexts on a device that lives in host memory: whole nets on a device without one. In builds
// without CUDA, where the passes of rooms run there.
#pragma once

#include <memory>
#include <utility>

#include "core/device_maker.hpp"
#include "crema/context.hpp"
#include "support/fake_device.hpp"

namespace crema {

/// As long as it lives, new contexts on a device get fake ones.
class FakeDevices {
 public:
  FakeDevices() : before_(std::exchange(device_maker(), [this](int) { return make(); })) {}
  ~FakeDevices() { device_maker() = before_; }
  FakeDevices(const FakeDevices&) = delete;
  FakeDevices& operator=(const FakeDevices&) = delete;

  /// Options of a context on such a device.
  static ContextOptions options() { return {.device = {DeviceType::cuda, 0}, .tune = false}; }
  /// That of the context that was made last.
  FakeDevice& last() const { return *last_; }

 private:
  std::unique_ptr<DeviceBackend> make() {
    auto device = std::make_unique<FakeDevice>();
    last_ = device.get();
    return device;
  }

  DeviceMaker before_;
  FakeDevice* last_ = nullptr;
};

}  // namespace crema
