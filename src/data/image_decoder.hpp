// Compressed image files as pixels, by the way that decodes least: JPEGs only where they are
// wanted, and at a fraction of the size where they are made much smaller; other files whole.
#pragma once

#include <string_view>
#include <vector>

#include "data/image.hpp"
#include "data/image_codec.hpp"
#include "data/image_steps.hpp"
#include "data/jpeg_decoder.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread. A file whose data
/// are damaged is an Error, though decoders make up pixels for it; without libjpeg-turbo, only one
/// that is cut off.
class ImageDecoder {
 public:
  /// Sides and channels of a file (8 bits a channel, interleaved), and its pixels unless they are
  /// still to be decoded. `file` must stay until the pixels are taken. Error when it is no image,
  /// damaged, or has more than 8 bits.
  Image open(std::string_view file, ColorMode mode);
  /// Of the opened file, at least the window; Image::top and left say where the pixels begin. Valid
  /// until the next call. If open() gave no pixels, the sides are first multiplied by eighths / 8
  /// (1, 2, 4 or 8), rounded up; the window lies in the image of that size.
  Image pixels(const ImageWindow& window, int eighths = 8);
  /// The opened file after the steps.
  Image changed(std::vector<ImageStep> steps);
  Image whole() { return changed({}); }

 private:
  JpegDecoder jpeg_;
  ImageCodec codec_;
  ImageEditor editor_;
  std::string_view file_;
  ColorMode mode_ = ColorMode::as_stored;
  Image opened_;
};

}  // namespace crema
