// Files and databases that the layers of a net read.
#pragma once

#include <string>

#include "crema/net.hpp"

namespace crema::tools {

/// Error if writing `output` would replace what a layer of the net reads: a file or database that
/// its settings name, a file of a list that they name, or an image in a folder of classes.
void check_not_read(const std::string& output, const Net& net);

}  // namespace crema::tools
