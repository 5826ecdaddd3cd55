// Whether a path can be a Tuner's file.
#pragma once

#include <string>

namespace crema {

/// Why measured times cannot be kept under the path: there is something else, which save() would
/// replace, or no place to write in; as in "holds no measured times". "" when they can. A folder
/// that is missing is no reason, since save() makes it.
std::string why_no_tuning_file(const std::string& path);

}  // namespace crema
