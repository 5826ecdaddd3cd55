// The longest side of images that OpenCV changes.
#pragma once

#include <cstdint>

namespace crema {

inline constexpr int64_t kLongestSide = 32767;

}  // namespace crema
