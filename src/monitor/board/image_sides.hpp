// The sides of an image file, told by its head before anything is decoded: a small file may stand
// for an image that no memory holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace crema {

struct ImageSides {
  int64_t width = 0, height = 0;
};

/// Of PNG, JPEG, GIF, BMP and WebP. None for other files, and where the head is damaged.
std::optional<ImageSides> image_sides(std::string_view file);

}  // namespace crema
