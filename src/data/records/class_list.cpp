#include "data/records/class_list.hpp"

#include <map>

#include "crema/error.hpp"
#include "data/records/text_list.hpp"

namespace crema {

bool is_yaml_name(std::string_view path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

std::vector<std::string> read_class_list(const std::string& path) {
  std::vector<std::string> names;
  std::map<std::string, size_t, std::less<>> numbers;
  const auto add = [&](std::string_view name) {
    const auto [place, fresh] = numbers.emplace(name, names.size());
    if (!fresh)
      throw Error("class '", name, "' comes twice; it is class ", place->second, " already");
    names.emplace_back(name);
  };
  if (!is_yaml_name(path)) {
    read_text_list(path, "the names of classes, one a line",
                   [&](std::string_view text, int64_t) { add(text); });
    return names;
  }
  for (const NamedClass& one : read_yaml_names(path)) {
    try {
      add(one.name);
    } catch (Error& error) {
      error.at({path, one.line, 0});
      throw;
    }
  }
  return names;
}

}  // namespace crema
