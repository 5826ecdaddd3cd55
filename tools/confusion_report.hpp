// A ConfusionMatrix as `crema test` shows it.
#pragma once

#include <string>
#include <vector>

#include "analysis/confusion.hpp"

namespace crema::tools {

/// What the parts of a report go by.
struct ConfusionReport {
  const ConfusionMatrix& confusion;
  const std::vector<std::string>& names;  // of the classes; none: their numbers stand for them

  /// Logs accuracy, with many classes also that of the best five, and the means of the classes.
  void log_shares() const;
  /// Prints a line for each class: support, precision, recall, F1, IoU, and, with pairs, the
  /// classes that it was taken for.
  void print_classes() const;
  /// Prints all counts of which class was taken for which, where the classes are few. Needs pairs.
  void print_pairs() const;
  /// Members of a JSON object, each behind a comma: shares, classes, and the counts if `pairs`.
  std::string json(const ScoredLabels& of, bool pairs) const;
};

/// The name of a class as a report has it: "3" without names, else the name, cut where it is long.
std::string class_label(const std::vector<std::string>& names, int64_t label);

}  // namespace crema::tools
