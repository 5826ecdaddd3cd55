// A context on a device that lives in host memory: whole nets on a device without one. In builds
// without CUDA, where the passes of rooms run there.
#pragma once

#include <memory>
#include <utility>

#include "crema/context.hpp"
#include "support/timed_device.hpp"

namespace crema {

class FakeContext {
 public:
  FakeContext() {
    auto device = std::make_unique<TimedDevice>();
    device_ = device.get();
    context_ = std::make_unique<Context>(ContextOptions{.tune = false}, std::move(device));
  }

  Context& context() { return *context_; }
  TimedDevice& device() { return *device_; }

 private:
  TimedDevice* device_;
  std::unique_ptr<Context> context_;
};

}  // namespace crema
