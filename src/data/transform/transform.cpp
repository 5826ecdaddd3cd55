#include "data/transform/transform.hpp"

#include <algorithm>

#include "backend/cpu/pixel_rows.hpp"
#include "crema/error.hpp"
#include "data/transform/unsupported.hpp"
#include "proto/common.pb.h"

namespace crema {
namespace {

/// The pixels of a row, (width, channels), become a row of each channel, which lie `plane` apart.
template <class Stored>
void cut_row(const Stored* in, int64_t width, int64_t channels, int64_t plane, Stored* out) {
  if constexpr (sizeof(Stored) == 1) {
    if (channels == 3) return split_pixels(in, width, out, out + plane, out + 2 * plane);
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t w = 0; w < width; ++w) out[c * plane + w] = in[w * channels + c];
  }
}

/// out = (in - mean) * scale along a row, the last first when mirrored.
template <class Stored, class T>
void convert_row(const Stored* in, int64_t width, bool mirrored, const PixelScaling& scaling,
                 T* out) {
  const T scale = scaling.scale;
  for (int64_t w = 0; w < width; ++w) {
    const T mean = scaling.means != nullptr ? scaling.means[w] : scaling.mean;
    out[mirrored ? width - 1 - w : w] = (static_cast<T>(in[w]) - mean) * scale;
  }
}
void convert_row(const uint8_t* in, int64_t width, bool mirrored, const PixelScaling& scaling,
                 float* out) {
  scale_pixels(in, width, scaling, mirrored, out);
}

template <class Stored>
const Stored* pixels_of(const Image& image);
template <>
const uint8_t* pixels_of(const Image& image) {
  return image.bytes;
}
template <>
const float* pixels_of(const Image& image) {
  return image.floats;
}

}  // namespace

Transform::Transform(const TransformationParameter& param, Phase phase)
    : phase_(phase),
      scale_(param.scale()),
      mirror_(param.mirror()),
      crop_(crop_of(param)),
      augmentation_(param, phase),
      mean_values_(param.mean_value().begin(), param.mean_value().end()) {
  using P = TransformationParameter;
  reject_unsupported(param,
                     {P::kScaleFieldNumber,
                      P::kMirrorFieldNumber,
                      P::kCropSizeFieldNumber,
                      P::kMeanFileFieldNumber,
                      P::kMeanValueFieldNumber,
                      P::kForceColorFieldNumber,
                      P::kForceGrayFieldNumber,
                      P::kCropHFieldNumber,
                      P::kCropWFieldNumber,
                      P::kResizeParamFieldNumber,
                      P::kRandomCropParamFieldNumber,
                      P::kRotateParamFieldNumber,
                      P::kDistortParamFieldNumber,
                      P::kBlurParamFieldNumber,
                      P::kEraseParamFieldNumber,
                      P::kMixupParamFieldNumber,
                      P::kCutmixParamFieldNumber,
                      P::kNumLabelsFieldNumber,
                      P::kNoiseParamFieldNumber,
                      P::kExpandParamFieldNumber,
                      P::kRandomResizeParamFieldNumber,
                      P::kRandomAspectRatioParamFieldNumber,
                      P::kBgr2RgbFieldNumber,
                      P::kPadFieldNumber,
                      P::kImgRandResizeLowerFieldNumber,
                      P::kImgRandResizeUpperFieldNumber,
                      P::kInterpolationAlgoDownFieldNumber,
                      P::kInterpolationAlgoUpFieldNumber},
                     "transform_param");
  if (param.has_mean_file() && !mean_values_.empty())
    throw Error("transform_param has both mean_file and mean_value; keep one of them");
  if (!param.has_mean_file()) return;
  mean_path_ = param.mean_file();
  mean_ = read_mean_file(mean_path_);
}

Shape Transform::output_shape(const Image& image) const {
  const auto means = static_cast<int64_t>(mean_values_.size());
  if (means > 1 && means != image.channels)
    throw Error("there are ", means, " mean_value for ", image.channels,
                " channels; give one for all, or one a channel");
  if (!mean_.values.empty() && mean_.shape != image.shape())
    throw Error("mean_file '", mean_path_, "' is of ", mean_.shape.str(), " and the record of ",
                image.shape().str(), "; give the mean image of this database, or mean_value");
  if (crop_.height == 0) return image.shape();
  if (crop_.height > image.height || crop_.width > image.width)
    throw Error("crop_size ", crop_.height, " x ", crop_.width, " is larger than the record of ",
                image.height, " x ", image.width, " pixels; make it smaller, or the images larger");
  return {image.channels, crop_.height, crop_.width};
}

ImageWindow Transform::window(const Image& image, const Placement& placement) const {
  if (crop_.height == 0) return {.height = image.height, .width = image.width};
  return {
      .top = placement.top, .left = placement.left, .height = crop_.height, .width = crop_.width};
}

Geometry Transform::geometry(const Image& image, const Placement& placement) const {
  Geometry geometry({image.height, image.width});
  geometry.cut(window(image, placement));
  if (placement.mirrored) geometry.mirror();
  return geometry;
}

Placement Transform::place(const Image& image, Random random) const {
  Placement placement;
  if (mirror_) placement.mirrored = random.below(2) == 1;
  if (crop_.height == 0) return placement;
  const int64_t rows = image.height - crop_.height, columns = image.width - crop_.width;
  if (phase_ == Phase::train) {
    placement.top = static_cast<int32_t>(random.below(static_cast<uint64_t>(rows) + 1));
    placement.left = static_cast<int32_t>(random.below(static_cast<uint64_t>(columns) + 1));
  } else {
    placement.top = static_cast<int32_t>(rows / 2);
    placement.left = static_cast<int32_t>(columns / 2);
  }
  return placement;
}

template <class Stored>
void Transform::cut(const Image& image, const Placement& placement, Stored* out) const {
  const Stored* pixels = pixels_of<Stored>(image);
  if (!image.interleaved && crop_.height == 0) {
    std::copy_n(pixels, image.count(), out);
    return;
  }
  const auto [top, left, height, width] = window(image, placement);
  const int64_t plane = height * width;
  const int64_t begin = (top - image.top) * image.width + left - image.left;
  for (int64_t h = 0; h < height; ++h, out += width) {
    const Stored* row =
        pixels + (begin + h * image.width) * (image.interleaved ? image.channels : 1);
    if (image.interleaved) {
      cut_row(row, width, image.channels, plane, out);
      continue;
    }
    for (int64_t c = 0; c < image.channels; ++c)
      std::copy_n(row + c * image.height * image.width, width, out + c * plane);
  }
}

template <class Stored>
void Transform::erase(const Erasure& erasure, const Shape& shape, const Placement& placement,
                      Stored* out) const {
  const ImageWindow& window = erasure.window;
  const auto values = static_cast<int64_t>(erasure.value.size());
  if (values > 1 && values != shape[0])
    throw Error("erase_param has ", values, " values for ", shape[0],
                " channels; give one for all, or one a channel");
  if (erasure.noise && sizeof(Stored) > 1)
    throw Error("erase_param { noise } draws bytes, and the record holds floats; give values");
  // What lies in `out` is mirrored later on.
  const int64_t left = placement.mirrored ? shape[2] - window.left - window.width : window.left;
  auto noise = erasure.noise;
  for (int64_t c = 0; c < shape[0]; ++c) {
    const float value = values == 0 ? 0 : erasure.value[values == 1 ? 0 : static_cast<size_t>(c)];
    for (int64_t h = window.top; h < window.top + window.height; ++h) {
      Stored* row = out + (c * shape[1] + h) * shape[2] + left;
      std::fill_n(row, window.width, static_cast<Stored>(value));
      for (int64_t w = 0; noise && w < window.width; ++w)
        row[w] = static_cast<Stored>(noise->next_u32() & 255);
    }
  }
}

template <class Stored, class T>
void Transform::convert(const Stored* in, const Shape& shape, const Placement& placement,
                        T* out) const {
  // Without mirroring, a plane is one long row.
  const bool by_row = placement.mirrored || !mean_.values.empty();
  const int64_t rows = by_row ? shape[1] : 1;
  const int64_t width = by_row ? shape[2] : shape.count(1);
  for (int64_t c = 0; c < shape[0]; ++c) {
    PixelScaling scaling{.mean = mean_of_channel(c), .scale = scale_};
    for (int64_t h = 0; h < rows; ++h, in += width, out += width) {
      if (!mean_.values.empty()) {
        const int64_t row = c * mean_.shape[1] + placement.top + h;
        scaling.means = mean_.values.data() + row * mean_.shape[2] + placement.left;
      }
      convert_row(in, width, placement.mirrored, scaling, out);
    }
  }
}

std::vector<float> Transform::means(int64_t channels) const {
  if (has_mean_image()) return mean_.values;
  std::vector<float> means;
  for (int64_t c = 0; c < channels; ++c) means.push_back(mean_of_channel(c));
  return means;
}

float Transform::mean_of_channel(int64_t channel) const {
  if (mean_values_.empty()) return 0;
  return mean_values_[mean_values_.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

template void Transform::cut(const Image&, const Placement&, uint8_t*) const;
template void Transform::cut(const Image&, const Placement&, float*) const;
template void Transform::erase(const Erasure&, const Shape&, const Placement&, uint8_t*) const;
template void Transform::erase(const Erasure&, const Shape&, const Placement&, float*) const;
template void Transform::convert(const uint8_t*, const Shape&, const Placement&, float*) const;
template void Transform::convert(const uint8_t*, const Shape&, const Placement&, double*) const;
template void Transform::convert(const float*, const Shape&, const Placement&, float*) const;
template void Transform::convert(const float*, const Shape&, const Placement&, double*) const;

}  // namespace crema
