#include "layer_support/require_host.hpp"

#include "crema/error.hpp"

namespace crema {

void require_host(const ComputeDevice& device) {
  if (!device.on_host() && !device.backend()->host_can_read())
    throw Error("runs on the host only; its source was not compiled by nvcc");
}

}  // namespace crema
