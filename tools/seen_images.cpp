#include "tools/seen_images.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/data_source.hpp"
#include "core/utf8.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/picture_marks.hpp"
#include "data/transform/mean_file.hpp"
#include "monitor/png.hpp"
#include "proto/common.pb.h"
#include "proto/net.pb.h"

namespace crema::tools {
namespace {

constexpr int kPhotoSide = 100;  // from it on, photos are JPEG

/// (height, width, channels) of the means of squares of pixels.
std::vector<double> shrunk(const std::vector<double>& pixels, int64_t height, int64_t width,
                           int64_t channels, int64_t new_height, int64_t new_width) {
  if (height == new_height && width == new_width) return pixels;
  std::vector<double> out(static_cast<size_t>(new_height * new_width * channels));
  for (int64_t y = 0; y < new_height; ++y) {
    const int64_t top = y * height / new_height, bottom = (y + 1) * height / new_height;
    for (int64_t x = 0; x < new_width; ++x) {
      const int64_t left = x * width / new_width, right = (x + 1) * width / new_width;
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t i = top; i < bottom; ++i) {
          for (int64_t j = left; j < right; ++j)
            sum += pixels[static_cast<size_t>((i * width + j) * channels + c)];
        }
        out[static_cast<size_t>((y * new_width + x) * channels + c)] =
            sum / static_cast<double>((bottom - top) * (right - left));
      }
    }
  }
  return out;
}

void fit(int64_t height, int64_t width, int longest, int64_t& new_height, int64_t& new_width) {
  const double factor =
      std::min(1.0, static_cast<double>(longest) / static_cast<double>(std::max(height, width)));
  const auto side = [&](int64_t pixels) {
    return std::max<int64_t>(1, std::llround(static_cast<double>(pixels) * factor));
  };
  new_height = side(height);
  new_width = side(width);
}

/// Pixels far from those of images, as of other data, fill the range from black to white.
void stretch(std::vector<double>& pixels) {
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  for (double& pixel : pixels) {
    if (!std::isfinite(pixel)) pixel = 0;
    least = std::min(least, pixel);
    greatest = std::max(greatest, pixel);
  }
  constexpr double kMargin = 8;
  const bool is_image = least >= -kMargin && greatest <= 255 + kMargin && greatest > 2;
  if (is_image || !(greatest > least)) return;
  for (double& pixel : pixels) pixel = (pixel - least) / (greatest - least) * 255;
}

}  // namespace

SeenImages::SeenImages(Net& net, bool rgb) : rgb_(rgb) {
  for (const Layer* layer : net.layers()) {
    const DataSource* data = layer->data_source();
    if (data == nullptr || layer->param().top_size() == 0) continue;
    const std::string& top = layer->param().top(0);
    if (!net.has_blob(top) || net.blob(top).shape().rank() != 4) continue;
    data_ = data;
    top_ = top;
    is_database_ = data->has_database_keys();
    const Shape& shape = net.blob(top).shape();
    height_ = shape[2];
    width_ = shape[3];
    Origin origin;
    data->tell_transform(origin);
    const TransformationParameter& transform = origin.transform();
    if (transform.bgr2rgb()) rgb_ = true;
    if (transform.scale() != 0) scale_ = transform.scale();
    for (const float mean : transform.mean_value()) means_.push_back({{mean}});
    if (means_.size() == 1) means_.resize(static_cast<size_t>(shape[1]), means_[0]);
    if (!transform.has_mean_file()) return;
    for (const float mean : origin.channel_mean()) means_.push_back({{mean}});
    try {
      const MeanImage mean = read_mean_file(transform.mean_file());
      const int64_t rows = mean.shape[1], columns = mean.shape[2];
      if (mean.shape[0] != shape[1] || rows < height_ || columns < width_) return;
      // Tests crop the middle.
      const int64_t top_row = (rows - height_) / 2, left = (columns - width_) / 2;
      std::vector<Plane> planes;
      for (int64_t c = 0; c < shape[1]; ++c) {
        Plane& plane = planes.emplace_back();
        for (int64_t y = 0; y < height_; ++y) {
          for (int64_t x = 0; x < width_; ++x)
            plane.mean.push_back(
                mean.values[static_cast<size_t>((c * rows + top_row + y) * columns + left + x)]);
        }
      }
      means_ = std::move(planes);
    } catch (const Error&) {
      // The means of the channels stand for it.
    }
    return;
  }
}

bool SeenImages::is_red_first(int64_t index) const {
  if (rgb_) return true;
  if (!is_database_) return false;
  const std::string key = data_->raw_key(index);
  return key.size() == 5 && height_ <= 32 && width_ <= 32 &&
         std::ranges::all_of(key, [](unsigned char c) { return std::isdigit(c) != 0; });
}

Evaluation::Picture SeenImages::picture(Net& net, int64_t index, int longest) const {
  const Tensor values = net.output(top_);
  const Shape& shape = values.shape();
  const int64_t depth = shape[1], height = shape[2], width = shape[3];
  const int64_t channels = depth >= 3 ? 3 : 1;
  const bool red_first = channels == 3 && is_red_first(index);
  std::vector<double> pixels(static_cast<size_t>(height * width * channels));  // red first
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t from = channels == 3 && !red_first ? 2 - c : c;
    const Plane* mean =
        from < static_cast<int64_t>(means_.size()) ? &means_[static_cast<size_t>(from)] : nullptr;
    const bool is_plane = mean != nullptr && mean->mean.size() > 1;
    for (int64_t i = 0; i < height * width; ++i) {
      double value = values.at((index * depth + from) * height * width + i) / scale_;
      if (mean != nullptr)
        value += mean->mean[is_plane ? static_cast<size_t>(i) % mean->mean.size() : 0];
      pixels[static_cast<size_t>(i * channels + c)] = value;
    }
  }
  stretch(pixels);
  int64_t new_height = 0, new_width = 0;
  fit(height, width, longest, new_height, new_width);
  std::vector<uint8_t> bytes;
  for (const double pixel : shrunk(pixels, height, width, channels, new_height, new_width))
    bytes.push_back(static_cast<uint8_t>(std::clamp(std::lround(pixel), 0L, 255L)));
  Evaluation::Picture picture;
  picture.set_width(static_cast<int>(new_width));
  picture.set_height(static_cast<int>(new_height));
  const std::string key = printable(data_->record_key(index));
  if (!key.empty()) picture.set_key(key);
  if (data_->record_number(index) >= 0) picture.set_record(data_->record_number(index));
  if (can_mark_pictures() && std::max(new_height, new_width) >= kPhotoSide) {
    if (channels == 3) {
      for (size_t i = 0; i < bytes.size(); i += 3) std::swap(bytes[i], bytes[i + 2]);
    }
    Image image;
    image.channels = channels;
    image.height = new_height;
    image.width = new_width;
    image.interleaved = true;
    image.bytes = bytes.data();
    picture.set_type("jpeg");
    picture.set_image(ImageCodec::encode(image, "jpg"));
  } else {
    picture.set_type("png");
    picture.set_image(png_of_pixels(bytes, static_cast<int>(new_width),
                                    static_cast<int>(new_height), static_cast<int>(channels)));
  }
  return picture;
}

std::vector<uint8_t> smaller_classes(const std::vector<uint8_t>& classes, int64_t height,
                                     int64_t width, int longest, int64_t& new_height,
                                     int64_t& new_width) {
  fit(height, width, longest, new_height, new_width);
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < new_height; ++y) {
    for (int64_t x = 0; x < new_width; ++x)
      out.push_back(
          classes[static_cast<size_t>(y * height / new_height * width + x * width / new_width)]);
  }
  return out;
}

}  // namespace crema::tools
