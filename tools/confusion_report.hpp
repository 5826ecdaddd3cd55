// A ConfusionMatrix as `crema test` shows it.
#pragma once

#include <string>

#include "analysis/confusion.hpp"

namespace crema::tools {

/// Logs accuracy, mean accuracy of the classes and mean IoU.
void log_shares(const ConfusionMatrix& confusion);

/// Prints a line for each class, and all counts where the classes are few.
void print_confusion(const ConfusionMatrix& confusion);

/// Members of a JSON object, each behind a comma: shares, classes, counts.
std::string json_of(const ConfusionMatrix& confusion, const ScoredLabels& of);

}  // namespace crema::tools
