// PNG files, by zlib alone. The pixels are those that OpenCV decodes, to the bit; gray of colour
// does not depend on the file's gamma.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/image.hpp"
#include "data/png_chunks.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread.
class PngDecoder {
 public:
  /// The pixels as they lie in the file, interleaved; bytes, the upper 8 bits of 16, or, with
  /// Depth::own, floats for a file of 16 bits. The view holds until the next call. Error if the
  /// file is damaged, and for 16 bits as bytes and as stored.
  Image decode(const PngChunks& png, ColorMode mode, Depth depth);
  /// The indices of an image with a palette, one channel.
  Image indices(const PngChunks& png);

 private:
  void inflate(const PngChunks& png);
  template <class Out>
  Image expand(const PngChunks& png, int64_t channels, std::vector<Out>& out);

  std::vector<uint8_t> rows_;  // filtered rows of all passes, then as they were before the filter
  std::vector<uint8_t> bytes_;
  std::vector<float> floats_;
};

}  // namespace crema
