// PNG files of small pictures, in every build: without OpenCV and libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace crema {

/// Rows of `channels` bytes a pixel: 1, gray, or 3: red, green, blue.
std::string png_of_pixels(std::span<const uint8_t> pixels, int width, int height, int channels);

/// Rows of a class a pixel, each in its class_color(). Class 255 is transparent, and class 0,
/// mostly the background, nearly so.
std::string png_of_classes(std::span<const uint8_t> classes, int width, int height);

}  // namespace crema
