#include "data/databases/class_file.hpp"

#include <set>
#include <string_view>
#include <system_error>

#include "crema/error.hpp"
#include "data/records/class_list.hpp"
#include "data/records/text_list.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace fs = std::filesystem;

bool has_class_file(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(folder / kClassFile, none);
}

std::vector<std::string> read_class_file(const fs::path& folder) {
  if (!has_class_file(folder)) return {};
  return read_class_list((folder / kClassFile).string());
}

void check_class_names(const std::vector<std::string>& names) {
  std::set<std::string_view> known;
  for (size_t label = 0; label < names.size(); ++label) {
    const std::string& name = names[label];
    if (name.empty())
      throw Error("label ", label,
                  " has no name, and none cannot be a line of a list of names; give it one");
    if (trimmed(name) != name || name.find_first_of("\r\n") != std::string::npos)
      throw Error("the class '", name,
                  "' cannot be a line of a list of names: it has a line break, or blanks at its "
                  "ends; give it another name");
    if (!known.insert(name).second) throw Error("two classes have the name '", name, "'");
  }
}

std::vector<std::string> names_for_class_file(std::vector<std::string> names,
                                              std::string& why_not) {
  try {
    check_class_names(names);
  } catch (const Error& error) {
    why_not = text("the database does not keep the names of the classes: ", error.message());
    names.clear();
  }
  return names;
}

fs::path folder_of_database(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none) ? path.parent_path() : path;
}

void write_class_file(const fs::path& folder, const std::vector<std::string>& names) {
  if (names.empty()) return;
  check_class_names(names);
  std::string lines;
  for (const std::string& name : names) lines += name + "\n";
  WholeFile file((folder / kClassFile).string());
  file.append(lines);
  file.finish();
}

}  // namespace crema
