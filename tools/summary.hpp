// What `crema summary` prints.
#pragma once

#include <string>

#include "crema/net.hpp"

namespace crema::tools {

/// A line a layer, or conversion between layouts, then totals, memory and notes.
std::string summary_of(const Net& net);

}  // namespace crema::tools
