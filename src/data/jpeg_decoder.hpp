// JPEG files by libjpeg-turbo: only the part that is wanted, also at a fraction of the size. The
// pixels are those that OpenCV decodes, to the bit. Built without libjpeg-turbo, no file is its.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/image.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Channels and sides of a file, without pixels; `file` must stay until pixels(). None for a file
  /// that is ImageCodec's: no JPEG, damaged, of four channels, or to be turned as its EXIF says.
  std::optional<Image> open(std::string_view file, ColorMode mode);
  /// Decodes the opened file, at least the window of it, interleaved; Image::top and left say where
  /// the pixels begin. The file's sides are first multiplied by eighths / 8 (1, 2, 4 or 8), rounded
  /// up; the window lies in the image of that size. The view holds until the next call. None if the
  /// file turns out to be damaged.
  std::optional<Image> pixels(const ImageWindow& window, int eighths = 8);
  /// What libjpeg-turbo says is damaged in a file, which decoders fill up with pixels of their own:
  /// its first warning or error, such as "Corrupt JPEG data: bad Huffman code". "" for a whole
  /// file, for one that is no JPEG, and for one that lacks its end marker, which ImageCodec checks.
  /// Reads all data, and makes few pixels of them. Closes the opened file.
  std::string damage(std::string_view file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
