// Paths of fields, such as "layer[3].convolution_param.stride[0]".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crema {

struct FieldStep {
  std::string name;
  std::optional<int> index;
};

/// Takes the first step, "name" or "name[index]", off the path. Error for a bracket without an
/// index from 0 on.
FieldStep take_step(std::string_view& path);

}  // namespace crema
