#include "data/image_decoder.hpp"

#include <utility>

#include "crema/error.hpp"

namespace crema {

Image ImageDecoder::open(std::string_view file, ColorMode mode) {
  file_ = file;
  mode_ = mode;
  opened_ = {};
  if (const auto header = jpeg_.open(file, mode)) return opened_ = *header;
  // OpenCV makes up what is damaged, and tells of it on stderr.
  jpeg_.check(file);
  return opened_ = codec_.decode(file, mode);
}

Image ImageDecoder::pixels(const ImageWindow& window, int eighths) {
  if (opened_.has_pixels()) return opened_;
  if (const auto image = jpeg_.pixels(window, eighths)) return *image;
  // An error of libjpeg-turbo; OpenCV says what it is.
  const Image image = codec_.decode(file_, mode_);
  const auto scaled = [eighths](int64_t side) { return (side * eighths + 7) / 8; };
  return eighths == 8 ? image : codec_.resize(scaled(image.height), scaled(image.width));
}

Image ImageDecoder::changed(std::vector<ImageStep> steps) {
  const DecodePlan plan =
      plan_decoding({opened_.height, opened_.width}, !opened_.has_pixels(), steps);
  const Image image = pixels(plan.window, plan.eighths);
  const bool whole = image.height == plan.window.height && image.width == plan.window.width;
  return steps.empty() && whole ? image : editor_.apply(image, plan.window, steps);
}

}  // namespace crema
