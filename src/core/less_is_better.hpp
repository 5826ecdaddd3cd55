#pragma once

#include <string_view>

namespace crema {

/// Whether the least value of an output of a net is the best: it is a loss, or a word of its name
/// says so, such as "top1_err". Words are of letters alone: "terrain" is another word.
bool less_is_better(std::string_view output, float loss_weight = 0);

}  // namespace crema
