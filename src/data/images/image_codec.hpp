// Compressed image files by OpenCV: decoding, encoding. Built without OpenCV, every method throws
// an Error that says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/images/image.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread.
class ImageCodec {
 public:
  ImageCodec();
  ~ImageCodec();
  ImageCodec(const ImageCodec&) = delete;
  ImageCodec& operator=(const ImageCodec&) = delete;

  /// Decodes the contents of an image file (BMP, TIFF, WebP, ...; image_type() names it) to the
  /// upright picture, interleaved: bytes, or, with Depth::own and more than 8 bits a channel,
  /// floats. The view holds until the next call. Error when it is damaged, and for more than 8 bits
  /// as bytes and as stored.
  Image decode(std::string_view file, ColorMode mode, Depth depth = Depth::bytes);
  /// An interleaved image as a file of the kind that an extension names: "jpg", "png", ... Floats
  /// become 16 bits a channel, which kinds such as "png" and "tif" have.
  static std::string encode(const Image& image, const std::string& extension);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of an image with more than 8 bits a channel that is to become bytes as it is stored.
[[noreturn]] void refuse_depth();

}  // namespace crema
