// The sides of a pass whose body differs between them: on the host its operands are pointers of one
// type, on a device ValuesIn and ValuesOut (core/float_values.hpp). A pass that is given a side is
// compiled for that one alone.
//
//   const auto run = [&](const auto& side, auto x, auto y) { for_each(side, ..., Body{x, y}); };
//   if (device.on_host()) return run(HostSide(), device.read<T>(in), device.overwrite<T>(out));
//   run(DeviceSide(device), values_in<T>(device, in), values_out<T>(device, out));
#pragma once

#include <type_traits>

#include "core/move.hpp"

namespace crema {

struct HostSide : ComputeDevice {};

/// What is no host. The device of the tests runs its passes on the host's threads.
struct DeviceSide : ComputeDevice {
  explicit DeviceSide(const ComputeDevice& device) : ComputeDevice(device) {}
};

template <class Side>
inline constexpr bool kMayBeHost = !std::is_same_v<Side, DeviceSide>;
template <class Side>
inline constexpr bool kMayBeDevice = !std::is_same_v<Side, HostSide>;

}  // namespace crema
