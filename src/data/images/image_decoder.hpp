// Compressed image files as pixels of the upright picture, by the way that decodes least: JPEGs
// only where they are wanted, and at a fraction of the size where they are made much smaller; other
// files whole.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "data/images/gif_decoder.hpp"
#include "data/images/image.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_steps.hpp"
#include "data/images/jpeg_decoder.hpp"
#include "data/images/orientation.hpp"
#include "data/images/png_decoder.hpp"

namespace crema {

/// Works on one image at a time and keeps its memory for the next; one a thread. A file whose data
/// are damaged is an Error, though decoders make up pixels for it; without libjpeg-turbo, only one
/// that is cut off. The kind of a file is told by its first bytes. The picture is turned as its
/// EXIF says, or the orientation of a TIFF; sizes and windows are those of the upright picture.
class ImageDecoder {
 public:
  ImageDecoder() = default;
  /// `device` as that of JpegDecoder.
  explicit ImageDecoder(std::unique_ptr<DeviceJpeg> device) : jpeg_(std::move(device)) {}

  /// Sides and channels of a file (interleaved: bytes, or floats with Depth::own and more than 8
  /// bits a channel), and its pixels unless they are still to be decoded. `file` must stay until
  /// the pixels are taken. Error when it is no image, of a kind that is not supported, damaged, or
  /// has more than 8 bits as bytes and as stored.
  Image open(std::string_view file, ColorMode mode, Depth depth = Depth::bytes);
  /// The same as stored, but of a PNG with a palette the indices, in one channel.
  Image open_labels(std::string_view file);
  /// Of the opened file, at least the window; Image::top and left say where the pixels begin. Valid
  /// until the next call. If open() gave no pixels, the sides are first multiplied by eighths / 8
  /// (1, 2, 4 or 8), rounded up; the window lies in the image of that size.
  Image pixels(const ImageWindow& window, int eighths = 8);
  /// The opened file after the steps.
  Image changed(std::vector<ImageStep> steps);
  Image whole() { return changed({}); }
  /// What the pixels of the opened file lack of it.
  const ImageLoss& loss() const { return loss_; }
  /// Whether rows of the opened file are columns of its picture.
  bool is_sideways() const { return sideways_; }

 private:
  Image open_png(std::string_view file, ColorMode mode, Depth depth, bool indices);
  Image upright(const Image& image, const Orientation& orientation);

  JpegDecoder jpeg_;
  PngDecoder png_;
  GifDecoder gif_;
  ImageCodec codec_;
  ImageEditor editor_;
  std::string_view file_;
  ColorMode mode_ = ColorMode::as_stored;
  Image opened_;
  ImageLoss loss_;
  bool sideways_ = false;
  std::vector<uint8_t> turned_bytes_;
  std::vector<float> turned_floats_;
};

}  // namespace crema
