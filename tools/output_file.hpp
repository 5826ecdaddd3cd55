// Files that commands write: what can be seen to fail before hours of work.
#pragma once

#include <string>

namespace crema::tools {

/// Error unless `path` names a file in a folder that is there and can be written to. `what` is the
/// output in words, such as "the mean image".
void check_output_file(const std::string& path, const char* what);

}  // namespace crema::tools
