#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace crema {

/// Pixels (H, W, C) of 8 bits, gray (C = 1) or red, green and blue (C = 3), as a PNG file. Error if
/// zlib fails.
std::string png_of(std::span<const uint8_t> pixels, int height, int width, int channels);

}  // namespace crema
