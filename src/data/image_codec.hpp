// Compressed image files: decoding, resizing, encoding. Built without OpenCV, every method throws
// an Error that says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/image.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread.
class ImageCodec {
 public:
  ImageCodec();
  ~ImageCodec();
  ImageCodec(const ImageCodec&) = delete;
  ImageCodec& operator=(const ImageCodec&) = delete;

  /// Decodes the contents of an image file (JPEG, PNG, ...) to 8 bits a channel, interleaved. The
  /// view holds until the next call. Error when it is no image, damaged, or has more than 8 bits.
  Image decode(std::string_view file, ColorMode mode);
  /// Changes the size of the image decoded last: shrinks by averages, enlarges bilinearly.
  Image resize(int64_t height, int64_t width);
  /// An interleaved image as a file of the kind that an extension names: "jpg", "png", ...
  static std::string encode(const Image& image, const std::string& extension);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
