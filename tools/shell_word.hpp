// Words of command lines that a person copies.
#pragma once

#include <string>

namespace crema::tools {

/// The word as a shell reads it, with quotes if it needs them.
std::string shell_word(const std::string& word);

}  // namespace crema::tools
