// `crema time` of a net on a device.
#pragma once

#include "analysis/device_times.hpp"
#include "crema/context.hpp"

namespace crema::tools {

/// Prints the ceilings of the device of the context.
void print_ceilings(const Context& context, const DeviceCeilings& ceilings);

/// Times the net of --model, and prints it; `ceilings` are 0 where --peak does not ask for them.
void time_net_on_device(Context& context, const DeviceCeilings& ceilings);

}  // namespace crema::tools
