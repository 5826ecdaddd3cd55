// Image files of many kinds made by code, for tests of their decoding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema::test {

/// EXIF with one tag, the orientation, from its byte order on; also the whole head of a TIFF.
std::string exif(int orientation, bool big_endian = false);
/// A JPEG file with EXIF behind its start, in a segment of its own.
std::string jpeg_with_exif(const std::string& jpeg, const std::string& exif);

struct PngKind {
  int color = 2;  // type: 0 gray, 2 colour, 3 palette, 4 gray and alpha, 6 colour and alpha
  int depth = 8;  // bits of a sample
  bool interlaced = false;
  std::string palette, transparency;  // chunks PLTE and tRNS
  std::string exif;                   // chunk eXIf
};
/// Samples (H, W, S) as a PNG file whose rows have all filters by turns.
std::string png_file(const std::vector<uint16_t>& samples, int height, int width,
                     const PngKind& kind = {});
/// With its length and checksum.
std::string png_chunk(const std::string& name, const std::string& content);

struct GifKind {
  std::string palette;  // red, green, blue of up to 256 colours
  int background = 0;   // index
  int transparent = -1;
  bool interlaced = false;
  int top = 0, left = 0;                    // of the picture on its screen
  int screen_height = 0, screen_width = 0;  // 0: the picture's
};
/// Indices (H, W) as a GIF file.
std::string gif_file(const std::vector<uint8_t>& indices, int height, int width,
                     const GifKind& kind);

struct TiffKind {
  int channels = 3;  // red, green, blue; or 1
  int bits = 8;      // or 16
  int orientation = 1;
  bool big_endian = false;
};
/// Samples (H, W, C) as a TIFF file without compression.
std::string tiff_file(const std::vector<uint16_t>& samples, int height, int width,
                      const TiffKind& kind = {});

/// A WebP file of this picture, as OpenCV writes it, with EXIF behind it.
std::string webp_with_exif(const std::string& webp, int height, int width, const std::string& exif);

}  // namespace crema::test
