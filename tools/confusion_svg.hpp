// A ConfusionMatrix as a picture.
#pragma once

#include <string>
#include <vector>

#include "analysis/confusion.hpp"

namespace crema::tools {

/// More classes have cells that nobody can tell apart.
constexpr int64_t kMostDrawnClasses = 200;

/// SVG, light or dark as the reader's screen: rows are labels, columns predictions; a cell is as
/// strong as its share of the row, and has its count where the classes are few. `names` of the
/// classes, or none: their numbers. The matrix has pairs, and at most kMostDrawnClasses.
std::string confusion_svg(const ConfusionMatrix& confusion, const std::vector<std::string>& names);

}  // namespace crema::tools
