// Writing text files.
#pragma once

#include <string>
#include <string_view>

namespace crema {

/// Writes the text to a WholeFile (whole_file.hpp): `path` names either its old content or the
/// whole new one.
void write_text_atomically(const std::string& path, std::string_view text);

}  // namespace crema
