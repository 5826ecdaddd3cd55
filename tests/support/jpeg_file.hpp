// JPEG files of any kind, for tests of their decoding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema::test {

struct JpegKind {
  int channels = 3;  // 1, 3 or 4
  int quality = 90;
  int across = 2, down = 2;  // pixels of a sample of chroma
  bool progressive = false;
  int restart = 0;      // blocks between restart markers; 0: none
  int orientation = 0;  // of EXIF; 0: no such tag
};

/// A picture with smooth parts, edges and noise; pixels (height, width, channels). The same for the
/// same sizes.
std::vector<uint8_t> picture(int height, int width, int channels);
/// `pixels` in a JPEG file. Empty in a build without libjpeg-turbo.
std::string jpeg_file(const std::vector<uint8_t>& pixels, int height, int width,
                      const JpegKind& kind = {});

}  // namespace crema::test
