// What the device did, by CUPTI: kernels, copies and fillings with their times. In cupti, and in
// no_cupti where its header is absent.
#pragma once

#include <string>
#include <vector>

#include "core/device_timer.hpp"

namespace crema {

/// Notes what the devices of the process do from here on. Returns why it cannot; "" if it can.
std::string start_activities();
/// What was noted, by time, and ends it. All devices are idle.
std::vector<DeviceActivity> stop_activities();

}  // namespace crema
