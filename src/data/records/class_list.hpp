// Files with the names of the classes of a data set, in the order of their labels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema {

/// A line each; or `names` of a file .yaml or .yml, as data sets of YOLO have it: a list, or a map
/// of the numbers from 0 on. Error, with the line, for a name that comes twice, for a file without
/// names, and for YAML in a build that cannot read it.
std::vector<std::string> read_class_list(const std::string& path);

/// Whether the name of a file says that it is YAML.
bool is_yaml_name(std::string_view path);

/// Whether this build reads YAML: CREMA_ANNOTATIONS, with yaml-cpp.
bool reads_yaml();

struct NamedClass {
  std::string name;
  int line = 0;  // from 1
};
/// `names` of a YAML file. Error, with the line, for a text that is no YAML or has no such names.
std::vector<NamedClass> read_yaml_names(const std::string& path);

}  // namespace crema
