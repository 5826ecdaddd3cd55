// Several files in one setting.
#pragma once

#include <string>
#include <vector>

namespace crema {

/// The files that a pattern names: "a.tar"; "train-{000..015}.tar" and "{a,b}.tar", in their order;
/// "train-*.tar", "?" and "[0-9]" as the shell has them, in the order of names. Error for a pattern
/// that names no file, and for a file that is not there.
std::vector<std::string> files_of(const std::string& pattern);

}  // namespace crema
