// Classes of images that folders are named after.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/class_names.hpp"
#include "crema/context.hpp"

namespace crema {

/// What tells the labels of classes.
struct ClassRule {
  ClassRule(std::string list = {}) : file(std::move(list)) {}  // implicit
  ClassRule(const char* list) : file(list) {}                  // implicit

  /// The names of the classes, one a line, in the order of their labels; "": none.
  std::string file;
  /// Of a source of test data: the classes of the training data, whose names are empty where they
  /// are unknown.
  std::optional<ClassNames> training = {};
};

/// The names of the classes in the order of their labels: the lines of the rule's file; else the
/// training data's; else `found`, whose order is that of their bytes. Error for a class of `found`
/// that is not among them or that the training data lack; for one of the training data without a
/// folder, unless a file lists them; and for a file that gives a class of the training data another
/// label or has one twice. Logs how many classes there are, with a warning for those of a file
/// without a folder, and where the training data's are unknown. `source` is for messages.
std::vector<std::string> classes_in_order(const std::set<std::string>& found, const ClassRule& rule,
                                          const std::string& source, const Logger& logger);

/// The place of each name.
std::map<std::string, int32_t> labels_by_name(const std::vector<std::string>& names);

}  // namespace crema
