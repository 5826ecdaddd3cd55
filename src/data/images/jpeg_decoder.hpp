// JPEG files by libjpeg-turbo: only the part that is wanted, also at a fraction of the size. The
// pixels are those that OpenCV decodes, to the bit, or nearly so where a device decodes. Built
// without libjpeg-turbo, no file is its.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/device_jpeg.hpp"
#include "data/images/image.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread.
class JpegDecoder {
 public:
  JpegDecoder();
  /// Files that `device` decodes, at full size, have its pixels; the host decodes all others. May
  /// be null.
  explicit JpegDecoder(std::unique_ptr<DeviceJpeg> device);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Channels and sides of a file, without pixels; `file` must stay until pixels(). The sides are
  /// those of the upright picture, as its EXIF says. None for a file that is ImageCodec's: no JPEG,
  /// without an end marker, or of four channels. Error for sides that its bytes cannot hold.
  std::optional<Image> open(std::string_view file, ColorMode mode);
  /// Decodes the opened file, at least the window of it, interleaved; Image::top and left say where
  /// the pixels begin. The file's sides are first multiplied by eighths / 8 (1, 2, 4 or 8), rounded
  /// up; the window lies in the upright picture of that size. The view holds until the next call.
  /// Error if the data are damaged, wherever it is; none without an opened file.
  std::optional<Image> pixels(const ImageWindow& window, int eighths = 8);
  /// Error if the data of a JPEG file are damaged or end early, which decoders fill up with pixels
  /// of their own, or if libjpeg-turbo cannot read them at all. Passes files of other kinds, and
  /// oddities that change no pixel, such as padding behind the data. Reads all data, and makes few
  /// pixels of them. Closes the opened file.
  void check(std::string_view file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
