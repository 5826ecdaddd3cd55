// GIF files by giflib: the first picture, on the background of its screen. Built without giflib,
// every file is an Error that says so.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/images/image.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread.
class GifDecoder {
 public:
  /// Decodes to colour, or to gray with ColorMode::gray; bytes, interleaved. The view holds until
  /// the next call. Error if the file is damaged up to the end of its first picture.
  Image decode(std::string_view file, ColorMode mode);

 private:
  std::vector<uint8_t> pixels_;
};

}  // namespace crema
