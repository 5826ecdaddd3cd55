#include "core/class_names.hpp"

#include "crema/error.hpp"

namespace crema {

void check_same_classes(const ClassNames& one, const ClassNames& other, std::string_view way_out) {
  for (size_t label = 0; label < one.names.size(); ++label) {
    const std::string& name = one.names[label];
    const bool known = label < other.names.size();
    if (name.empty() || (known && (other.names[label].empty() || other.names[label] == name)))
      continue;
    throw Error("label ", label, " is '", name, "' in ", one.from, ", which has ", one.names.size(),
                " classes, and ", known ? "'" + other.names[label] + "'" : std::string("no class"),
                " in ", other.from, ", which has ", other.names.size(), "; ", way_out);
  }
}

}  // namespace crema
