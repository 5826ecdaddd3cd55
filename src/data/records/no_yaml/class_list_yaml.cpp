// For builds without yaml-cpp.
#include "crema/error.hpp"
#include "data/records/class_list.hpp"

namespace crema {

bool reads_yaml() { return false; }

std::vector<NamedClass> read_yaml_names(const std::string& path) {
  throw Error("cannot read the names of classes in '", path,
              "': this build of Crema has no library for YAML; build with CREMA_ANNOTATIONS=ON and "
              "yaml-cpp (package libyaml-cpp-dev), or write the names to a text file, one a line");
}

}  // namespace crema
