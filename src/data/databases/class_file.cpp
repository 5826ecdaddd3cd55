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
  for (const std::string& name : names) {
    if (name.empty() || trimmed(name) != name || name.find_first_of("\r\n") != std::string::npos)
      throw Error("the class '", name,
                  "' cannot be a line of a list of names: it is empty, or has a line break or "
                  "blanks at its ends; give it another name");
    if (!known.insert(name).second) throw Error("two classes have the name '", name, "'");
  }
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
