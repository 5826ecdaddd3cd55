// What can be told of a PNG file without decoding it (ISO/IEC 15948, clause 5).
#pragma once

#include <string_view>

#include "data/images/orientation.hpp"

namespace crema {

struct PngHeader {
  int bits = 8;              // of a sample, or of an index into the palette
  bool has_palette = false;  // the pixels are indices into it
  /// Whether the palette gives other colours than the index as gray.
  bool has_colored_palette = false;
  Orientation orientation;  // of the first EXIF that is whole
};

/// Error if the file is cut off, does not begin with its header, or has too few bytes for its
/// pixels. Other damage is for the decoder to find.
PngHeader read_png_header(std::string_view file);

}  // namespace crema
