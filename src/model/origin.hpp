// Where weights and states come from: what the message Origin (proto/net.proto) says of them.
#pragma once

#include <string>

namespace crema {

/// This program and its version, such as "crema 0.1.0".
std::string program_version();

}  // namespace crema
