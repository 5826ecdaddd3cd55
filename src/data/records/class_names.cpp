#include "data/records/class_names.hpp"

#include <algorithm>
#include <utility>

#include "crema/error.hpp"
#include "data/records/class_list.hpp"

namespace crema {
namespace {

using Names = std::vector<std::string>;

/// The names that `others` lack.
Names without(const Names& names, const Names& others) {
  const std::set<std::string> known(others.begin(), others.end());
  Names left;
  for (const std::string& name : names) {
    if (!known.contains(name)) left.push_back(name);
  }
  return left;
}

/// "'a', 'b', 'c' and 7 more".
std::string some_of(const Names& names) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) shown.push_back("'" + names[i] + "'");
  return joined(shown) +
         (names.size() > kShown ? text(" and ", names.size() - kShown, " more") : "");
}

/// Error unless the labels that a file gives mean the same classes as in training.
void check_same_labels(const std::vector<std::string>& names, const std::string& file,
                       const ClassNames& training, const std::string& source) {
  const size_t both = std::min(names.size(), training.names.size());
  for (size_t label = 0; label < both; ++label) {
    if (names[label] == training.names[label]) continue;
    throw Error(source, ": label ", label, " is class '", names[label], "' by class_names '", file,
                "', and '", training.names[label], "' in the training data (", training.from,
                "); give both the same names in the same order");
  }
}

/// Error for a class that training did not have, whose images have no label.
void check_known(const std::set<std::string>& found, const ClassNames& training,
                 const std::string& source) {
  const Names unknown = without({found.begin(), found.end()}, training.names);
  if (unknown.empty()) return;
  throw Error(source, " has the class", unknown.size() == 1 ? " " : "es ", some_of(unknown),
              ", which the training data (", training.from, ") lack",
              unknown.size() == 1 ? did_you_mean(unknown[0], training.names) : "",
              "; labels are the places of the training data's ", training.names.size(),
              " class names, so give the folders of classes the names that they have there, and "
              "remove the others");
}

/// Error for a class of the training data without a folder.
void check_whole(const std::set<std::string>& found, const ClassNames& training,
                 const std::string& source) {
  if (training.listed) return;
  const Names lacking = without(training.names, {found.begin(), found.end()});
  if (lacking.empty()) return;
  throw Error(source, " lacks the class", lacking.size() == 1 ? " " : "es ", some_of(lacking),
              " of the training data (", training.from, "), which have ", training.names.size(),
              " classes; add what is missing, or, if there are no such images, list the names of "
              "all classes in a file, a line each in the order of their labels, and name it in "
              "class_names of both layers");
}

}  // namespace

std::map<std::string, int32_t> labels_by_name(const std::vector<std::string>& names) {
  std::map<std::string, int32_t> labels;
  for (const std::string& name : names) labels.emplace(name, static_cast<int32_t>(labels.size()));
  return labels;
}

std::vector<std::string> classes_in_order(const std::set<std::string>& found, const ClassRule& rule,
                                          const std::string& source, const Logger& logger) {
  const bool is_trained = rule.training && !rule.training->names.empty();
  std::vector<std::string> names;
  if (!rule.file.empty()) {
    names = read_class_list(rule.file);
    if (is_trained) check_same_labels(names, rule.file, *rule.training, source);
    const Names unlisted = without({found.begin(), found.end()}, names);
    if (!unlisted.empty())
      throw Error(source, " has a class '", unlisted[0], "', which class_names '", rule.file,
                  "' lacks", did_you_mean(unlisted[0], names));
  }
  if (is_trained) check_known(found, *rule.training, source);
  if (names.empty() && is_trained) {
    check_whole(found, *rule.training, source);
    names = rule.training->names;
  }
  if (names.empty()) names.assign(found.begin(), found.end());

  if (!logger) return names;
  const bool own = rule.file.empty() && !is_trained;
  const std::string list = !rule.file.empty() ? "'" + rule.file + "'"
                           : is_trained       ? rule.training->from
                                              : "their names";
  logger(Severity::info, text(source, " has ", found.size(), " classes, label 0 to ",
                              names.size() - 1, " in the order of ", list));
  const Names absent = without(names, {found.begin(), found.end()});
  if (!absent.empty())
    logger(Severity::warning, text(source, " has no image of ", absent.size(), " classes of ", list,
                                   ", the first of them '", absent[0], "'"));
  if (own && rule.training)
    logger(Severity::warning,
           text(source, ": the labels are the places of its own ", names.size(),
                " class names, since those of the training data are unknown (", rule.training->from,
                "); they are wrong if training had other classes. class_names of the layer names "
                "a file with the classes in the order of their labels"));
  return names;
}

}  // namespace crema
