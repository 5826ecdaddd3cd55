// Pixels of one record, as decoding leaves them.
#pragma once

#include <cstdint>
#include <string>

#include "crema/shape.hpp"

namespace crema {

/// A view; the decoder owns the pixels. One of `bytes` and `floats` is set, or neither as long as
/// only the sizes are known.
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  /// Where the pixels begin in the image that they are a part of.
  int64_t top = 0, left = 0;
  /// Rows of pixels, (H, W, C), as image files decode; else planes, (C, H, W), as raw records are.
  bool interleaved = false;
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;

  Shape shape() const { return {channels, height, width}; }
  int64_t count() const { return channels * height * width; }
  bool has_pixels() const { return bytes != nullptr || floats != nullptr; }
};

/// Pixels of an image's sides; 0 and 0: none.
struct ImageSize {
  int64_t height = 0, width = 0;
};

/// A rectangle of pixels.
struct ImageWindow {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Channels that a compressed image is decoded to. Colour is in the order blue, green, red.
enum class ColorMode : uint8_t { as_stored, color, gray };

/// What a compressed image of more than 8 bits a channel is decoded to: bytes, or floats with its
/// own values. Others become bytes.
enum class Depth : uint8_t { bytes, own };

/// What decoding an image file as asked for loses of it.
struct ImageLoss {
  bool depth = false;    // the file has more than 8 bits a channel, and these are bytes
  bool palette = false;  // the colours of a PNG's palette became gray, and its indices are gone
};

}  // namespace crema
