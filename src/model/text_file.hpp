// Reading and writing text files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crema {

/// Writes the text to a WholeFile (whole_file.hpp): `path` names either its old content or the
/// whole new one.
void write_text_atomically(const std::string& path, std::string_view text);
/// Likewise, without waiting for the disk (WholeFile::finish_unsynced): for what is made again.
void write_text_unsynced(const std::string& path, std::string_view text);

/// The whole file; none where it cannot be read, and for a device, which has no end.
std::optional<std::string> text_of_file(const std::string& path);

}  // namespace crema
