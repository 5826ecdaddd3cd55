// What layers of several types say of themselves: their options, their tails, and parameters of old
// files.
#pragma once

#include <optional>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

/// One option for each format, for layers whose tops have the format of their bottoms. Blocked
/// formats are included if `padding_ok`, or if no bottom or top has padding in its last block.
std::vector<Option> same_format_options(Blobs bottom, Blobs top, DType dtype, bool padding_ok);

/// Changes the shape of a contiguous tensor to `to` if both differ only in axes of extent 1.
/// Returns false otherwise.
bool squeeze(Tensor& tensor, const Shape& to);

/// The negative slope of the ReLU if the tail is exactly one ReLU and its slope is not negative.
/// The sign of the input then equals the sign of the output, so backward needs only the output.
std::optional<float> relu_slope_of(const Tail& tail);

}  // namespace crema
