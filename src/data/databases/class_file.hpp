// The names of a database's classes: the file class_names.txt in its folder, a line each in the
// order of their labels. Other programs read the files of LMDB and LevelDB alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crema {

constexpr const char* kClassFile = "class_names.txt";

/// Whether the folder has the file.
bool has_class_file(const std::filesystem::path& folder);
/// None where the folder has no such file. Error where it cannot be read.
std::vector<std::string> read_class_file(const std::filesystem::path& folder);
/// Error for a name that cannot be a line of the file: an empty one, one with a line break or with
/// blanks at its ends, and one that comes twice.
void check_class_names(const std::vector<std::string>& names);
/// Without names, nothing is written.
void write_class_file(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace crema
