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
/// The names, where the file can have them. Else none, and `why_not` says what of them it cannot
/// have: folders and label maps have names that are no lines, and labels without a name.
std::vector<std::string> names_for_class_file(std::vector<std::string> names, std::string& why_not);
/// The folder of a database, which a file in it may stand for.
std::filesystem::path folder_of_database(const std::filesystem::path& path);
/// Without names, nothing is written.
void write_class_file(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace crema
