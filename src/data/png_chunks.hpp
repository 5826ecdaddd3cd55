// The chunks of a PNG file (ISO/IEC 15948, clause 5): checked, and those that its pixels need.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace crema {

/// Views of the file.
struct PngChunks {
  enum Color : uint8_t { gray = 0, rgb = 2, palette = 3, gray_alpha = 4, rgb_alpha = 6 };
  int64_t width = 0, height = 0;
  int depth = 8;  // bits of a sample, or of an index into the palette: 1, 2, 4, 8 or 16
  Color color = gray;
  bool interlaced = false;
  std::string_view colors;             // of the palette: red, green, blue of each
  std::string_view transparency;       // opacities of the palette, or the colour that is no pixel's
  std::string_view exif;               // "" if there is none
  std::vector<std::string_view> data;  // compressed, in pieces

  /// Samples of a pixel in the file.
  int64_t samples() const {
    return color == rgb ? 3 : color == gray_alpha ? 2 : color == rgb_alpha ? 4 : 1;
  }
  /// Whether a palette gives other colours than the index as gray.
  bool has_colored_palette() const;
};

/// Error if the file is cut off, a chunk that pixels need is damaged, or a setting is none of PNG.
/// Damaged chunks that no pixel needs are passed over.
PngChunks read_png_chunks(std::string_view file);

}  // namespace crema
