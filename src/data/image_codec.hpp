// Compressed image files: decoding, resizing, encoding. Built without OpenCV, every method throws
// an Error that says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/image.hpp"

namespace crema {

/// How an image is made smaller. average: over the area of each new pixel, so that nothing of the
/// image is left out. bilinear: from the pixels nearest to its centre.
enum class Shrinking : uint8_t { average, bilinear };

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
  /// Changes the size of the image decoded last. Enlarging is bilinear.
  Image resize(int64_t height, int64_t width, Shrinking how = Shrinking::average);
  /// Cuts a rectangle out of the image decoded last, which has it.
  Image crop(int64_t top, int64_t left, int64_t height, int64_t width);
  /// The image as a file of the kind that an extension names: "jpg", "png", ...
  std::string encode(const std::string& extension) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
