// The layer types of the published formats and of their forks, from layers/published_types.txt.
#pragma once

#include <string>

namespace crema {

/// The settings that a published type reads and that do not have its name, with spaces between
/// them, such as "convolution_param" of Deconvolution. Null if the type is not published. Written
/// by the build (scripts/cmake/rooms.cmake).
const std::string* published_type(const std::string& name);

}  // namespace crema
