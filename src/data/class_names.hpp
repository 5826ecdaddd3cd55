// Classes of images that folders are named after.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "crema/context.hpp"

namespace crema {

/// The labels of classes by their names: from 0, in the order of the names (bytes compared), or in
/// that of the lines of the file `class_names` if it is not "". Error for a class that the file
/// lacks, and for one that it has twice. Logs how many classes there are, and a warning for those
/// of the file without a folder. `source` is for messages.
std::map<std::string, int32_t> class_labels(const std::set<std::string>& found,
                                            const std::string& class_names,
                                            const std::string& source, const Logger& logger);

}  // namespace crema
