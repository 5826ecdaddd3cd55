// Who makes the devices of contexts.
#pragma once

#include <functional>
#include <memory>

#include "core/device.hpp"

namespace crema {

using DeviceMaker = std::function<std::unique_ptr<DeviceBackend>(int index)>;

/// The maker of the backends of new contexts: make_cuda_backend(), or what a test put in its place.
DeviceMaker& device_maker();

}  // namespace crema
