// Which settings of transform_param are out of range, or exclude each other.
#include "crema/error.hpp"
#include "data/images/longest_side.hpp"
#include "data/transform/augmentation.hpp"
#include "data/transform/unsupported.hpp"

namespace crema {
namespace {

using T = TransformationParameter;

void check_probability(const char* name, float value) {
  if (!(value >= 0 && value <= 1))
    throw Error("transform_param { ", name, ": ", value, " } is no probability; give 0 to 1");
}

void check_range(const char* name, float low, float high, float least, float most) {
  if (!(low >= least && low <= high && high <= most))
    throw Error("transform_param { ", name, " } is to be drawn from ", low, " to ", high,
                "; give bounds in this order, from ", least, " to ", most);
}

void check_colour(const char* name, const google::protobuf::RepeatedField<float>& values) {
  for (const float value : values) {
    if (!(value >= 0 && value <= 255))
      throw Error("transform_param { ", name, ": ", value, " } is no value of a pixel, 0 to 255");
  }
}

void check_size(const char* name, int64_t size) {
  if (size < 1 || size > kLongestSide)
    throw Error("transform_param { ", name, ": ", size, " } is no side of an image; set 1 to ",
                kLongestSide);
}

constexpr float kMost = 1e6f;

}  // namespace

void Augmentation::check_resizing() const {
  const T& p = param_;
  constexpr int kMode = ResizeParameter::kInterpModeFieldNumber;
  reject_unsupported(p.random_resize_param().resize_param(), {kMode},
                     "transform_param { random_resize_param { resize_param } }");
  reject_unsupported(p.random_aspect_ratio_param().resize_param(), {kMode},
                     "transform_param { random_aspect_ratio_param { resize_param } }");
  const int resizes = (p.resize_param_size() > 0) + p.has_random_resize_param() +
                      (p.img_rand_resize_lower() > 0 || p.img_rand_resize_upper() > 0);
  if (resizes > 1)
    throw Error(
        "transform_param has several of resize_param, random_resize_param and img_rand_resize_*; "
        "keep one of them");
  for (const ResizeParameter& resize : p.resize_param()) {
    check_probability("resize_param { prob }", resize.prob());
    check_size("resize_param { height }", resize.height());
    check_size("resize_param { width }", resize.width());
    check_colour("resize_param { pad_value }", resize.pad_value());
    if (resize.height_scale() != 0 || resize.width_scale() != 0)
      throw Error(
          "transform_param { resize_param { height_scale, width_scale } } are not implemented; "
          "remove them, since boxes follow the image's own size");
  }
  if (sizes() > 1) check_sizes();
  if (p.has_random_resize_param()) {
    const RandomResizeParameter& resize = p.random_resize_param();
    if (resize.max_size() != 0 && resize.min_size() > resize.max_size())
      throw Error("transform_param { random_resize_param } has min_size ", resize.min_size(),
                  " above max_size ", resize.max_size());
  }
  const uint32_t lower = p.img_rand_resize_lower(), upper = p.img_rand_resize_upper();
  if ((lower == 0) != (upper == 0) || lower > upper)
    throw Error("transform_param has img_rand_resize_lower ", lower, " and img_rand_resize_upper ",
                upper, "; give both, in this order");
  if (p.has_expand_param()) {
    const ExpansionParameter& expand = p.expand_param();
    check_probability("expand_param { prob }", expand.prob());
    check_range("expand_param { max_expand_ratio }", 1, expand.max_expand_ratio(), 1, 100);
  }
  if (p.pad() > 0) check_size("pad", p.pad());
  if (p.has_mean_file() && (p.has_expand_param() || p.pad() > 0))
    throw Error("transform_param { ", p.pad() > 0 ? "pad" : "expand_param",
                " } fills with mean_value, and there is a mean_file; give mean_value instead");
}

void Augmentation::check_sizes() const {
  double all = 0;
  for (const ResizeParameter& resize : param_.resize_param()) {
    all += static_cast<double>(resize.prob());
    if (resize.resize_mode() == ResizeParameter::FIT_SMALL_SIZE && crop_.height == 0)
      throw Error(
          "transform_param has several resize_param, of which one is drawn for each batch, and "
          "resize_mode: FIT_SMALL_SIZE gives the images of a batch several sizes; set WARP or "
          "FIT_LARGE_SIZE_AND_PAD, or crop_size");
  }
  if (all == 0)
    throw Error(
        "transform_param has several resize_param, of which one is drawn for each batch by its "
        "prob, and each prob is 0; give one of them a share");
  if (param_.has_mean_file() && crop_.height == 0)
    throw Error(
        "transform_param has several resize_param, and the mean image of mean_file has one size; "
        "give mean_value instead");
}

void Augmentation::check_cropping() const {
  const T& p = param_;
  if (p.has_random_crop_param() && p.has_random_aspect_ratio_param())
    throw Error(
        "transform_param has both random_crop_param and random_aspect_ratio_param; keep one of "
        "them");
  if ((p.has_random_crop_param() || p.has_random_aspect_ratio_param()) && crop_.height == 0)
    throw Error(
        "transform_param has no crop_size, and random_crop_param and random_aspect_ratio_param "
        "resize to it; set crop_size, or crop_h and crop_w");
  if (p.has_random_crop_param()) {
    const RandomCropParameter& crop = p.random_crop_param();
    check_probability("random_crop_param { prob }", crop.prob());
    check_range("random_crop_param { min_area, max_area }", crop.min_area(), crop.max_area(), 1e-6f,
                1);
    check_range("random_crop_param { min_aspect, max_aspect }", crop.min_aspect(),
                crop.max_aspect(), 1e-3f, 1e3f);
  }
  if (p.has_random_aspect_ratio_param()) {
    const RandomAspectRatioParameter& ratio = p.random_aspect_ratio_param();
    check_range("random_aspect_ratio_param { min_area_ratio, max_area_ratio }",
                ratio.min_area_ratio(), ratio.max_area_ratio(), 1e-6f, 1);
    check_range("random_aspect_ratio_param { aspect_ratio_change }", ratio.aspect_ratio_change(),
                ratio.aspect_ratio_change(), 1e-3f, 1e3f);
  }
  if (p.has_rotate_param()) {
    check_probability("rotate_param { prob }", p.rotate_param().prob());
    check_range("rotate_param { max_degrees }", p.rotate_param().max_degrees(),
                p.rotate_param().max_degrees(), 0, 180);
    check_colour("rotate_param { fill }", p.rotate_param().fill());
  }
}

void Augmentation::check_pixels() const {
  const T& p = param_;
  const DistortionParameter& d = p.distort_param();
  check_probability("distort_param { brightness_prob }", d.brightness_prob());
  check_probability("distort_param { contrast_prob }", d.contrast_prob());
  check_probability("distort_param { hue_prob }", d.hue_prob());
  check_probability("distort_param { saturation_prob }", d.saturation_prob());
  check_probability("distort_param { random_order_prob }", d.random_order_prob());
  const auto need = [](bool taken, bool set, const char* step, const char* fields) {
    if (taken && !set)
      throw Error("transform_param { distort_param } has ", step, "_prob and no ", fields,
                  "; give ", fields, ", or leave ", step, "_prob out");
  };
  need(d.brightness_prob() > 0, d.has_brightness_delta(), "brightness", "brightness_delta");
  need(d.hue_prob() > 0, d.has_hue_delta(), "hue", "hue_delta");
  need(d.contrast_prob() > 0, d.has_contrast_lower() && d.has_contrast_upper(), "contrast",
       "contrast_lower and contrast_upper");
  need(d.saturation_prob() > 0, d.has_saturation_lower() && d.has_saturation_upper(), "saturation",
       "saturation_lower and saturation_upper");
  check_range("distort_param { brightness_delta }", 0, d.brightness_delta(), 0, 255);
  check_range("distort_param { hue_delta }", 0, d.hue_delta(), 0, 180);
  check_range("distort_param { contrast_lower, contrast_upper }", d.contrast_lower(),
              d.contrast_upper(), 0, kMost);
  check_range("distort_param { saturation_lower, saturation_upper }", d.saturation_lower(),
              d.saturation_upper(), 0, kMost);
  const NoiseParameter& noise = p.noise_param();
  check_probability("noise_param { prob }", noise.prob());
  check_probability("noise_param { saltpepper_param { fraction } }",
                    noise.saltpepper_param().fraction());
  check_colour("noise_param { saltpepper_param { value } }", noise.saltpepper_param().value());
  check_range("noise_param { jpeg }", noise.jpeg(), noise.jpeg(), -1, 100);
  const BlurParameter& blur = p.blur_param();
  check_probability("blur_param { prob }", blur.prob());
  check_range("blur_param { min_sigma, max_sigma }", blur.min_sigma(), blur.max_sigma(), 1e-3f,
              100);
  const EraseParameter& erase = p.erase_param();
  check_probability("erase_param { prob }", erase.prob());
  check_range("erase_param { min_area, max_area }", erase.min_area(), erase.max_area(), 1e-6f, 1);
  check_range("erase_param { min_aspect, max_aspect }", erase.min_aspect(), erase.max_aspect(),
              1e-3f, 1e3f);
  check_colour("erase_param { value }", erase.value());
  if (erase.noise() && erase.value_size() > 0)
    throw Error("transform_param { erase_param } has both noise and value; keep one of them");
}

}  // namespace crema
