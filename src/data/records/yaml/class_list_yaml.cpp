// The names of classes in the YAML file of a data set, by yaml-cpp.
#include <yaml-cpp/yaml.h>

#include <map>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "data/records/class_list.hpp"
#include "data/records/image_list.hpp"

namespace crema {
namespace {

constexpr const char* kForm = "; give names: [cat, dog], or names: with lines '0: cat', '1: dog'";

class Names {
 public:
  explicit Names(const std::string& path) : path_(path) {}

  std::vector<NamedClass> read(const std::string& text) {
    try {
      return names_of(YAML::Load(text));
    } catch (const YAML::Exception& error) {
      throw Error("it is no YAML: ", error.msg).at(position(error.mark));
    }
  }

 private:
  std::vector<NamedClass> names_of(const YAML::Node& root) const {
    if (root.IsSequence()) return of_list(root);
    if (!root.IsMap() || !root["names"]) refuse(root, "it has no names of classes", kForm);
    const YAML::Node names = root["names"];
    if (!names.IsSequence() && !names.IsMap()) refuse(names, "names is no list and no map", kForm);
    std::vector<NamedClass> all = names.IsMap() ? of_map(names) : of_list(names);
    check_count(root, all.size());
    return all;
  }

  std::vector<NamedClass> of_list(const YAML::Node& list) const {
    std::vector<NamedClass> all;
    for (const YAML::Node& name : list) all.push_back(named(name, all.size()));
    if (all.empty()) refuse(list, "names is empty", kForm);
    return all;
  }

  std::vector<NamedClass> of_map(const YAML::Node& map) const {
    std::map<int64_t, NamedClass> by_number;
    for (const auto& entry : map) {
      const YAML::Node& key = entry.first;
      const auto number =
          key.IsScalar() ? parse_number<int64_t>(key.Scalar()) : std::optional<int64_t>();
      if (!number || *number < 0)
        refuse(key, "names: ", key.IsScalar() ? text("'", key.Scalar(), "'") : "a key",
               " is no number of a class, a whole number from 0 on");
      if (!by_number.emplace(*number, named(entry.second, static_cast<size_t>(*number))).second)
        refuse(key, "names: class ", *number, " comes twice");
    }
    std::vector<NamedClass> all;
    for (const auto& [number, one] : by_number) {
      if (number != static_cast<int64_t>(all.size()))
        refuse(map, "names: class ", all.size(), " has no name, and class ", number,
               " has one; give all of them, from 0 on");
      all.push_back(one);
    }
    if (all.empty()) refuse(map, "names is empty", kForm);
    return all;
  }

  NamedClass named(const YAML::Node& node, size_t number) const {
    if (!node.IsScalar() || node.Scalar().empty())
      refuse(node, "names: class ", number, " has no name that is a text", kForm);
    return {node.Scalar(), node.Mark().line + 1};
  }

  /// `nc` says the number again.
  void check_count(const YAML::Node& root, size_t count) const {
    const YAML::Node said = root["nc"];
    if (!said) return;
    const auto number = said.IsScalar() ? parse_number<int64_t>(said.Scalar()) : std::nullopt;
    if (number != static_cast<int64_t>(count))
      refuse(said, "nc is ", said.IsScalar() ? said.Scalar() : "no number", ", but names has ",
             count, "; correct one of them");
  }

  Position position(const YAML::Mark& mark) const {
    return {path_, mark.is_null() ? 0 : mark.line + 1, 0};
  }
  template <class... Parts>
  [[noreturn]] void refuse(const YAML::Node& node, const Parts&... parts) const {
    throw Error(parts...).at(position(node.Mark()));
  }

  const std::string& path_;
};

}  // namespace

bool reads_yaml() { return true; }

std::vector<NamedClass> read_yaml_names(const std::string& path) {
  std::string text;
  try {
    read_file_bytes(path, text);
  } catch (const Error& error) {
    throw Error("names of classes '", path, "': ", error.message()).about(error.path());
  }
  return Names(path).read(text);
}

}  // namespace crema
