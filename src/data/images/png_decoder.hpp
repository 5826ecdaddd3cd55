// PNG files by libpng. The pixels are those that OpenCV decodes, to the bit; gray of colour does
// not depend on the file's gamma. Built without libpng, no file is its.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "data/images/image.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread. For files that
/// read_png_header() takes.
class PngDecoder {
 public:
  /// The pixels as they lie in the file, interleaved; bytes, the upper 8 bits of 16, or, with
  /// Depth::own, floats for a file of 16 bits. The view holds until the next call. Error if the
  /// file is damaged; chunks that no pixel needs may be. None in a build without libpng.
  std::optional<Image> decode(std::string_view file, ColorMode mode, Depth depth);
  /// The indices of an image with a palette, one channel. Error in a build without libpng.
  Image indices(std::string_view file);

 private:
  std::vector<uint8_t> bytes_;
  std::vector<float> floats_;
};

}  // namespace crema
