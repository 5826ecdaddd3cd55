#include "data/images/image_decoder.hpp"

#include <utility>

#include "crema/error.hpp"
#include "data/images/image_header.hpp"
#include "data/images/image_name.hpp"
#include "data/images/png_header.hpp"
#include "model/file_kind.hpp"

namespace crema {

void refuse_depth() {
  throw Error(
      "the image has more than 8 bits a channel; decode it with force_color or force_gray, which "
      "take the upper 8, convert it to 8 bits, or make a database of all its bits with crema "
      "convert-imageset --keep_depth");
}

Image ImageDecoder::open(std::string_view file, ColorMode mode, Depth depth) {
  file_ = file;
  mode_ = mode;
  opened_ = {};
  loss_ = {};
  sideways_ = false;
  check_is_image(file);
  const std::string_view type = image_type(file);
  if (type == "png") return opened_ = open_png(file, mode, depth, false);
  if (type == "gif") return opened_ = gif_.decode(file, mode);
  const ImageHeader header = read_image_header(file);
  sideways_ = header.orientation.is_sideways();
  loss_.depth = header.bits > 8 && depth == Depth::bytes;
  if (const auto opened = jpeg_.open(file, mode)) return opened_ = *opened;
  // OpenCV makes up what is damaged, and tells of it on stderr.
  jpeg_.check(file);
  return opened_ = codec_.decode(file, mode, depth);
}

Image ImageDecoder::open_labels(std::string_view file) {
  if (image_type(file) != "png") return open(file, ColorMode::as_stored);
  file_ = file;
  mode_ = ColorMode::as_stored;
  return opened_ = open_png(file, mode_, Depth::bytes, true);
}

Image ImageDecoder::open_png(std::string_view file, ColorMode mode, Depth depth, bool indices) {
  const PngHeader header = read_png_header(file);
  const bool deep = header.bits > 8 && depth == Depth::bytes;
  if (deep && mode == ColorMode::as_stored) refuse_depth();
  loss_ = {.depth = deep, .palette = mode == ColorMode::gray && header.has_colored_palette};
  sideways_ = header.orientation.is_sideways();
  if (indices && header.has_palette) return upright(png_.indices(file), header.orientation);
  if (const auto image = png_.decode(file, mode, depth)) return upright(*image, header.orientation);
  return codec_.decode(file, mode, depth);  // upright
}

Image ImageDecoder::upright(const Image& image, const Orientation& orientation) {
  if (orientation.is_upright()) return image;
  const ImageSize stored{image.height, image.width}, size = orientation.turned(stored);
  Image turned{
      .channels = image.channels, .height = size.height, .width = size.width, .interleaved = true};
  const auto turn = [&](const auto* in, auto& out) {
    out.resize(static_cast<size_t>(image.count()));
    orientation.turn(in, stored, image.channels, out.data());
    return out.data();
  };
  if (image.bytes != nullptr) turned.bytes = turn(image.bytes, turned_bytes_);
  if (image.floats != nullptr) turned.floats = turn(image.floats, turned_floats_);
  return turned;
}

Image ImageDecoder::pixels(const ImageWindow& window, int eighths) {
  if (opened_.has_pixels()) return opened_;
  if (const auto image = jpeg_.pixels(window, eighths)) return *image;
  // They were taken before.
  if (jpeg_.open(file_, mode_)) {
    if (const auto image = jpeg_.pixels(window, eighths)) return *image;
  }
  throw Error("the image cannot be decoded; get the file again, or leave it out");
}

Image ImageDecoder::changed(std::vector<ImageStep> steps) {
  const DecodePlan plan =
      plan_decoding({opened_.height, opened_.width}, !opened_.has_pixels(), steps);
  const Image image = pixels(plan.window, plan.eighths);
  const bool whole = image.height == plan.window.height && image.width == plan.window.width;
  return steps.empty() && whole ? image : editor_.apply(image, plan.window, steps);
}

}  // namespace crema
