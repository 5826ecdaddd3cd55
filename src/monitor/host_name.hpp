#pragma once

#include <string>

namespace crema {

/// The name of this machine; "localhost" where the system does not say.
std::string host_name();

}  // namespace crema
