// Loads weights from several files.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// Loads the files in their order and logs the report of each. If a layer is in several files, the
/// last one counts. `strict`: Error unless each layer with parameters is in at least one file, and
/// each layer of the files is in the net. After an Error, some of the weights may be loaded.
void load_weight_files(Net& net, const std::vector<std::string>& files, bool strict);

}  // namespace crema
