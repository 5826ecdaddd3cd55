// Quantities as people read them.
#pragma once

#include <string>

namespace crema::tools {

/// "1.2 GB", "345 MB", "12.0 kB".
std::string human_bytes(double bytes);
/// "1h02m", "3m20s", "12s".
std::string human_seconds(double seconds);

}  // namespace crema::tools
