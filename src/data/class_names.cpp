#include "data/class_names.hpp"

#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "data/class_list.hpp"

namespace crema {
namespace {

std::map<std::string, int32_t> read_class_names(const std::string& path) {
  std::map<std::string, int32_t> labels;
  for (const std::string& name : read_class_list(path))
    labels.emplace(name, static_cast<int32_t>(labels.size()));
  return labels;
}

}  // namespace

std::map<std::string, int32_t> class_labels(const std::set<std::string>& found,
                                            const std::string& class_names,
                                            const std::string& source, const Logger& logger) {
  std::map<std::string, int32_t> labels;
  if (class_names.empty()) {
    for (const std::string& name : found) labels.emplace(name, static_cast<int32_t>(labels.size()));
  } else {
    labels = read_class_names(class_names);
  }
  std::vector<std::string> known;
  for (const auto& [name, label] : labels) known.push_back(name);
  for (const std::string& name : found) {
    if (!labels.contains(name))
      throw Error(source, " has a class '", name, "', which class_names '", class_names, "' lacks",
                  did_you_mean(name, known));
  }
  if (!logger) return labels;
  size_t absent = 0;
  std::string first;
  for (const auto& [name, label] : labels) {
    if (!found.contains(name) && ++absent == 1) first = name;
  }
  logger(Severity::info,
         concat(source, " has ", found.size(), " classes, label 0 to ", labels.size() - 1,
                " in the order of ", class_names.empty() ? "their names" : class_names));
  if (absent > 0)
    logger(Severity::warning, concat(source, " has no image of ", absent, " classes of '",
                                     class_names, "', the first of them '", first, "'"));
  return labels;
}

}  // namespace crema
