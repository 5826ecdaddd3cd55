// Lists in flags, and quantities as people read them.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

/// The parts of a comma-separated list, without empty ones.
std::vector<std::string> split_list(const std::string& text);

/// "1.2 GB", "345 MB", "12.0 kB".
std::string human_bytes(double bytes);
/// "1h02m", "3m20s", "12s".
std::string human_seconds(double seconds);

}  // namespace crema::tools
