// Whether a path can be a Tuner's file.
#pragma once

#include <string>

namespace crema {

/// Why the path is no place for measured times: there is something else, which save() would
/// replace, or nothing, and no right to make it; as in "holds no measured times". "" when it is
/// one. A missing folder is no reason, since save() makes it; nor is a file that can be read but
/// not written, whose times count.
std::string why_no_tuning_file(const std::string& path);

}  // namespace crema
