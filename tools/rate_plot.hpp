// The curve of a range test of learning rates, for a terminal, for a browser and for programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "crema/solver.hpp"

namespace crema::tools {

/// Lines of at most `columns`: the smoothed loss over the rate, which is logarithmic, with signs of
/// UTF-8 or ASCII. What lies above the losses before the least one is cut off. Empty for fewer than
/// two steps.
std::vector<std::string> rate_plot(const RateCurve& curve, size_t columns, bool utf8);

/// The same as a picture, for light and dark screens, with each loss and the suggestions.
std::string rate_svg(const RateCurve& curve, const std::string& title);

/// One line: the suggestions, whether it diverged, and the steps.
std::string rate_json(const RateCurve& curve);

}  // namespace crema::tools
