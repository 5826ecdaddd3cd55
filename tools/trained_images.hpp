// What weights say of the images that they were trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/common.pb.h"

namespace crema::tools {

/// Gives the flags --mean, --scale and --channel_swap, where they are not given, the values of the
/// training, as the first of the weights files has them that says some, and logs it; warns of flags
/// that contradict it. A mean image that is not there, or has other means, becomes the mean of each
/// channel. `channels` of the net's input; Error for a mean of another number of them. Returns
/// transform_param of the training; empty if nothing is known of it.
TransformationParameter take_trained_images(const std::vector<std::string>& weights,
                                            int64_t channels);

/// Warns of a flag that contradicts what the weights were trained with.
void warn_of_training(const std::string& flag, const std::string& value,
                      const std::string& trained);

}  // namespace crema::tools
