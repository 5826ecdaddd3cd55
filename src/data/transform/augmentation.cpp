#include "data/transform/augmentation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "crema/error.hpp"
#include "data/images/longest_side.hpp"

namespace crema {
namespace {

using T = TransformationParameter;

/// Whether a step that has this probability is taken.
bool taken(Random& random, float probability) { return random.uniform() < probability; }

int64_t between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
}

Fill fill_of(const google::protobuf::RepeatedField<float>& values) {
  return {values.begin(), values.end()};
}

Interpolation interpolation_of(ResizeParameter::Interp_mode mode) {
  switch (mode) {
    case ResizeParameter::AREA:
      return Interpolation::area;
    case ResizeParameter::NEAREST:
      return Interpolation::nearest;
    case ResizeParameter::CUBIC:
      return Interpolation::cubic;
    case ResizeParameter::LANCZOS4:
      return Interpolation::lanczos4;
    case ResizeParameter::LINEAR:
      break;
  }
  return Interpolation::linear;
}

Interpolation interpolation_of(T::InterpolationAlgo algorithm) {
  switch (algorithm) {
    case T::INTER_NEAREST:
      return Interpolation::nearest;
    case T::INTER_CUBIC:
      return Interpolation::cubic;
    case T::INTER_AREA:
      return Interpolation::area;
    case T::INTER_LINEAR:
      break;
  }
  return Interpolation::linear;
}

/// The mode that settings name; none: averages where the image shrinks, else bilinear.
using Mode = std::optional<Interpolation>;

/// One of the modes, drawn evenly; the first in TEST.
Mode draw_interpolation(const ResizeParameter& param, bool trains, Random& random) {
  const int modes = param.interp_mode_size();
  if (modes == 0) return std::nullopt;
  const uint64_t drawn = trains ? random.below(static_cast<uint64_t>(modes)) : 0;
  return interpolation_of(param.interp_mode(static_cast<int>(drawn)));
}

void add_resize(ImageSize size, Mode mode, DrawnSteps& drawn) {
  size.height = std::max<int64_t>(size.height, 1);
  size.width = std::max<int64_t>(size.width, 1);
  if (size.height > kLongestSide || size.width > kLongestSide)
    throw Error("transform_param makes an image of ", size.height, " x ", size.width,
                " pixels; sides are at most ", kLongestSide);
  if (size.height == drawn.size.height && size.width == drawn.size.width) return;
  drawn.steps.emplace_back(resize_to(size, mode));
  drawn.size = size;
}

void add_cut(const ImageWindow& window, DrawnSteps& drawn) {
  if (window.height == drawn.size.height && window.width == drawn.size.width) return;
  drawn.steps.push_back(Cut{window});
  drawn.size = {window.height, window.width};
}

/// So that the shorter side is of this length.
void add_shorter_side(int64_t length, int64_t least, Mode mode, DrawnSteps& drawn) {
  const int64_t shorter = std::min(drawn.size.height, drawn.size.width);
  const auto scaled = [&](int64_t side) {
    return std::max(least, (side * length + shorter / 2) / shorter);
  };
  add_resize({scaled(drawn.size.height), scaled(drawn.size.width)}, mode, drawn);
}

/// A rectangle of random area and width / height somewhere in an image; none if it does not fit.
std::optional<ImageWindow> draw_window(ImageSize size, double area, double aspect, Random& random) {
  area *= static_cast<double>(size.height * size.width);
  const auto width = static_cast<int64_t>(std::lround(std::sqrt(area * aspect)));
  const auto height = static_cast<int64_t>(std::lround(std::sqrt(area / aspect)));
  if (width < 1 || height < 1 || width > size.width || height > size.height) return std::nullopt;
  const int64_t top = between(random, 0, size.height - height);
  return ImageWindow{
      .top = top, .left = between(random, 0, size.width - width), .height = height, .width = width};
}

double draw_in_logarithm(double low, double high, Random& random) {
  return std::exp(random.uniform(std::log(low), std::log(high)));
}

}  // namespace

ImageSize crop_of(const T& param) {
  if ((param.crop_h() == 0) != (param.crop_w() == 0))
    throw Error("transform_param gives crop_h ", param.crop_h(), " and crop_w ", param.crop_w(),
                "; give both, or crop_size");
  if (param.crop_h() == 0) return {param.crop_size(), param.crop_size()};
  if (param.crop_size() != 0)
    throw Error("transform_param has both crop_size and crop_h, crop_w; keep one of them");
  return {param.crop_h(), param.crop_w()};
}

Augmentation::Augmentation(const T& param, Phase phase)
    : param_(param), trains_(phase == Phase::train), crop_(crop_of(param)) {
  check_resizing();
  check_cropping();
  check_pixels();
  const T& p = param_;
  has_steps_ = p.resize_param_size() > 0 || p.bgr2rgb() || p.pad() > 0 ||
               (trains_ && (p.has_expand_param() || p.has_random_resize_param() ||
                            p.img_rand_resize_lower() > 0 || p.has_random_crop_param() ||
                            p.has_random_aspect_ratio_param() || p.has_rotate_param() ||
                            p.has_distort_param() || p.has_noise_param() || p.has_blur_param()));
}

void Augmentation::check_channels(int64_t channels) const {
  const T& p = param_;
  const auto need = [channels](bool set, const char* name, bool gray_too) {
    if (!set || channels == 3 || (gray_too && channels == 1)) return;
    throw Error("transform_param { ", name, " } needs ", gray_too ? "1 or 3 channels" : "colour",
                ", and the image has ", channels, " channels; ",
                channels == 1 ? "set force_color, or leave the step out" : "leave the step out");
  };
  const auto need_fill = [channels](int values, const char* name) {
    if (values > 1 && values != channels)
      throw Error("transform_param { ", name, " } has ", values,
                  " values to fill with, and the image has ", channels,
                  " channels; give one for all, or one a channel");
  };
  need(p.bgr2rgb(), "bgr2rgb", false);
  for (const ResizeParameter& resize : p.resize_param())
    need_fill(resize.pad_value_size(), "resize_param { pad_value }");
  if (!trains_) return;
  const DistortionParameter& distort = p.distort_param();
  need(distort.saturation_prob() > 0, "distort_param { saturation_prob }", false);
  need(distort.hue_prob() > 0, "distort_param { hue_prob }", false);
  need(distort.random_order_prob() > 0, "distort_param { random_order_prob }", false);
  const NoiseParameter& noise = p.noise_param();
  need(noise.decolorize(), "noise_param { decolorize }", false);
  need(noise.hist_eq(), "noise_param { hist_eq }", true);
  need(noise.clahe(), "noise_param { clahe }", true);
  need(noise.jpeg() > 0, "noise_param { jpeg }", true);
  need(noise.convert_to_hsv(), "noise_param { convert_to_hsv }", false);
  need(noise.convert_to_lab(), "noise_param { convert_to_lab }", false);
  need_fill(noise.saltpepper_param().value_size(), "noise_param { saltpepper_param { value } }");
  need_fill(p.rotate_param().fill_size(), "rotate_param { fill }");
  need_fill(p.erase_param().value_size(), "erase_param { value }");
}

DrawnSteps Augmentation::draw(ImageSize size, const SampleRandom& random) const {
  DrawnSteps drawn{.steps = {}, .size = size};
  if (trains_ && param_.has_expand_param()) expand(random.of("expand"), drawn);
  draw_rest(random, true, drawn);
  return drawn;
}

DrawnSteps Augmentation::draw_before_boxes(ImageSize size, const SampleRandom& random) const {
  DrawnSteps drawn{.steps = {}, .size = size};
  if (!trains_) return drawn;
  if (param_.has_distort_param()) distort(random.of("distort"), drawn);
  if (param_.has_expand_param()) expand(random.of("expand"), drawn);
  return drawn;
}

void Augmentation::draw_behind_boxes(const SampleRandom& random, DrawnSteps& drawn) const {
  draw_rest(random, false, drawn);
}

void Augmentation::draw_rest(const SampleRandom& random, bool distorts, DrawnSteps& drawn) const {
  const T& p = param_;
  if (p.resize_param_size() > 0) resize(random.size, random.of("resize"), drawn);
  if (trains_) {
    resize_shorter_side(random.of("shorter side"), drawn);
    if (p.has_random_crop_param()) random_crop(random.of("random crop"), drawn);
    if (p.has_random_aspect_ratio_param()) random_aspect_ratio(random.of("aspect ratio"), drawn);
    if (p.has_rotate_param()) rotate(random.of("rotate"), drawn);
    if (distorts && p.has_distort_param()) distort(random.of("distort"), drawn);
    if (p.has_noise_param()) add_noise(random.of("noise"), drawn);
    if (p.has_blur_param()) blur(random.of("blur"), drawn);
  }
  if (p.bgr2rgb()) drawn.steps.push_back(Permute{.order = {2, 1, 0}});
  if (p.pad() > 0) pad(drawn);
}

void Augmentation::expand(Random random, DrawnSteps& drawn) const {
  const ExpansionParameter& param = param_.expand_param();
  if (!taken(random, param.prob())) return;
  const double ratio = random.uniform(1, static_cast<double>(param.max_expand_ratio()));
  const auto longer = [ratio](int64_t side) {
    return static_cast<int64_t>(static_cast<double>(side) * ratio);
  };
  const ImageSize size{longer(drawn.size.height), longer(drawn.size.width)};
  const int64_t top = between(random, 0, size.height - drawn.size.height);
  const int64_t left = between(random, 0, size.width - drawn.size.width);
  // The means are in the sample's order, and bgr2rgb comes later.
  Fill fill = fill_of(param_.mean_value());
  if (param_.bgr2rgb()) std::ranges::reverse(fill);
  drawn.steps.push_back(
      Pad{.window = {.top = -top, .left = -left, .height = size.height, .width = size.width},
          .fill = std::move(fill)});
  drawn.size = size;
}

void Augmentation::pad(DrawnSteps& drawn) const {
  const int64_t by = param_.pad();
  const ImageSize size{drawn.size.height + 2 * by, drawn.size.width + 2 * by};
  drawn.steps.push_back(
      Pad{.window = {.top = -by, .left = -by, .height = size.height, .width = size.width},
          .fill = fill_of(param_.mean_value())});
  drawn.size = size;
}

int Augmentation::draw_size(const SampleRandom& of_batch) const {
  if (sizes() < 2) return 0;
  Random random = of_batch.of("size of the batch");
  double all = 0;
  for (const ResizeParameter& param : param_.resize_param())
    all += static_cast<double>(param.prob());
  double drawn = random.uniform() * all;
  int last = 0;  // that can be drawn: sums of shares may be rounded
  for (int i = 0; i < sizes(); ++i) {
    const auto share = static_cast<double>(param_.resize_param(i).prob());
    if (drawn < share) return i;
    drawn -= share;
    if (share > 0) last = i;
  }
  return last;
}

void Augmentation::resize(int which, Random random, DrawnSteps& drawn) const {
  const ResizeParameter& param = param_.resize_param(which);
  // Of several, prob is the share of the batches.
  if (trains_ && sizes() == 1 && !taken(random, param.prob())) return;
  const Mode interpolation = draw_interpolation(param, trains_, random);
  const int64_t height = param.height(), width = param.width();
  if (param.resize_mode() == ResizeParameter::WARP)
    return add_resize({height, width}, interpolation, drawn);
  // One side of the image becomes that of height x width, and the other one follows.
  const ImageSize in = drawn.size;
  const bool is_wider = in.width * height > width * in.height;
  const bool pads = param.resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD;
  const ImageSize to = is_wider == pads ? ImageSize{width * in.height / in.width, width}
                                        : ImageSize{height, height * in.width / in.height};
  add_resize(to, interpolation, drawn);
  if (!pads) return;
  const auto mode = param.pad_mode() == ResizeParameter::CONSTANT   ? Pad::Mode::constant
                    : param.pad_mode() == ResizeParameter::MIRRORED ? Pad::Mode::mirrored
                                                                    : Pad::Mode::nearest;
  drawn.steps.push_back(Pad{.window = {.top = -(height - drawn.size.height) / 2,
                                       .left = -(width - drawn.size.width) / 2,
                                       .height = height,
                                       .width = width},
                            .mode = mode,
                            .fill = fill_of(param.pad_value())});
  drawn.size = {height, width};
}

void Augmentation::resize_shorter_side(Random random, DrawnSteps& drawn) const {
  const auto [shorter, longer] = std::minmax(drawn.size.height, drawn.size.width);
  const int64_t least = std::max(crop_.height, crop_.width);
  if (param_.has_random_resize_param()) {
    const RandomResizeParameter& param = param_.random_resize_param();
    const int64_t low = param.min_size() == 0 ? shorter : int64_t{param.min_size()};
    const int64_t high = param.max_size() == 0 ? longer : int64_t{param.max_size()};
    if (low > high)
      throw Error("transform_param { random_resize_param } draws the shorter side from ", low,
                  " to ", high, "; give min_size and max_size");
    const int64_t length = between(random, low, high);
    add_shorter_side(length, least, draw_interpolation(param.resize_param(), true, random), drawn);
  }
  if (param_.img_rand_resize_lower() > 0) {
    const int64_t length =
        between(random, param_.img_rand_resize_lower(), param_.img_rand_resize_upper());
    Mode mode;
    if (length > shorter) {
      mode = interpolation_of(param_.interpolation_algo_up());
    } else if (param_.has_interpolation_algo_down()) {
      mode = interpolation_of(param_.interpolation_algo_down());
    }
    add_shorter_side(length, least, mode, drawn);
  }
}

void Augmentation::random_crop(Random random, DrawnSteps& drawn) const {
  const RandomCropParameter& param = param_.random_crop_param();
  if (!taken(random, param.prob())) return;
  const double low = param.min_aspect(), high = param.max_aspect();
  std::optional<ImageWindow> window;
  for (uint32_t attempt = 0; attempt < param.max_attempts() && !window; ++attempt) {
    const double area = random.uniform(static_cast<double>(param.min_area()),
                                       static_cast<double>(param.max_area()));
    window = draw_window(drawn.size, area, draw_in_logarithm(low, high, random), random);
  }
  if (!window) {
    const auto [height, width] = drawn.size;
    const double aspect = static_cast<double>(width) / static_cast<double>(height);
    window = ImageWindow{.height = height, .width = width};
    if (aspect < low) window->height = std::lround(static_cast<double>(width) / low);
    if (aspect > high) window->width = std::lround(static_cast<double>(height) * high);
    window->height = std::clamp<int64_t>(window->height, 1, height);
    window->width = std::clamp<int64_t>(window->width, 1, width);
    window->top = (height - window->height) / 2;
    window->left = (width - window->width) / 2;
  }
  add_cut(*window, drawn);
  add_resize(crop_, std::nullopt, drawn);
}

void Augmentation::random_aspect_ratio(Random random, DrawnSteps& drawn) const {
  const RandomAspectRatioParameter& param = param_.random_aspect_ratio_param();
  const Mode mode = draw_interpolation(param.resize_param(), true, random);
  const double change = param.aspect_ratio_change();
  for (uint32_t attempt = 0; attempt < param.max_attempt(); ++attempt) {
    const double area = random.uniform(static_cast<double>(param.min_area_ratio()),
                                       static_cast<double>(param.max_area_ratio()));
    const double drawn_change =
        random.uniform(std::min(change, 1 / change), std::max(change, 1 / change));
    // Each side changes by it, the ratio by its square.
    const double aspect = drawn_change * drawn_change;
    const bool turned = random.below(2) == 1;
    if (const auto window = draw_window(drawn.size, area, turned ? 1 / aspect : aspect, random)) {
      add_cut(*window, drawn);
      return add_resize(crop_, mode, drawn);
    }
  }
  const int64_t side = std::max(crop_.height, crop_.width);
  add_shorter_side(side, side, mode, drawn);
}

void Augmentation::rotate(Random random, DrawnSteps& drawn) const {
  const RotateParameter& param = param_.rotate_param();
  if (!taken(random, param.prob())) return;
  const double most = param.max_degrees();
  drawn.steps.push_back(
      Rotate{.degrees = random.uniform(-most, most), .fill = fill_of(param.fill())});
}

void Augmentation::distort(Random random, DrawnSteps& drawn) const {
  const DistortionParameter& p = param_.distort_param();
  const auto add = [&](float probability, float low, float high, auto step) {
    if (!taken(random, probability)) return;
    const auto first = static_cast<double>(low), last = static_cast<double>(high);
    drawn.steps.push_back(step(random.uniform(first, last)));
  };
  const auto contrast = [&] {
    add(p.contrast_prob(), p.contrast_lower(), p.contrast_upper(),
        [](double factor) { return Linear{.factor = factor}; });
  };
  // Contrast comes before the colours in half of the samples, after them in the others.
  const bool contrast_first = random.below(2) == 1;
  add(p.brightness_prob(), -p.brightness_delta(), p.brightness_delta(),
      [](double delta) { return Linear{.offset = delta}; });
  if (contrast_first) contrast();
  add(p.saturation_prob(), p.saturation_lower(), p.saturation_upper(),
      [](double factor) { return Saturate{factor}; });
  add(p.hue_prob(), -p.hue_delta(), p.hue_delta(), [](double by) { return TurnHue{by}; });
  if (!contrast_first) contrast();
  if (taken(random, p.random_order_prob())) {
    Permute step;
    for (uint64_t c = 2; c > 0; --c) std::swap(step.order[c], step.order[random.below(c + 1)]);
    drawn.steps.push_back(step);
  }
}

void Augmentation::add_noise(Random random, DrawnSteps& drawn) const {
  const NoiseParameter& p = param_.noise_param();
  if (p.has_prob() && !taken(random, p.prob())) return;
  auto& steps = drawn.steps;
  if (p.decolorize()) steps.push_back(Filter::gray);
  if (p.gauss_blur()) steps.push_back(Blur{.sigma = 1.5, .size = 7});
  if (p.hist_eq()) steps.push_back(Filter::equalize);
  if (p.clahe()) steps.push_back(Filter::equalize_locally);
  if (p.jpeg() > 0) steps.push_back(Compress{static_cast<int>(p.jpeg())});
  if (p.erode()) steps.push_back(Filter::erode);
  if (p.posterize()) steps.push_back(Filter::posterize);
  if (p.inverse()) steps.push_back(Filter::invert);
  if (p.saltpepper()) {
    const auto pixels = static_cast<double>(drawn.size.height * drawn.size.width);
    const auto fraction = static_cast<double>(p.saltpepper_param().fraction());
    steps.push_back(SaltPepper{.count = static_cast<int64_t>(fraction * pixels),
                               .value = fill_of(p.saltpepper_param().value()),
                               .seed = random.next_u64()});
  }
  if (p.convert_to_hsv()) steps.push_back(Filter::to_hsv);
  if (p.convert_to_lab()) steps.push_back(Filter::to_lab);
}

void Augmentation::blur(Random random, DrawnSteps& drawn) const {
  const BlurParameter& param = param_.blur_param();
  if (!taken(random, param.prob())) return;
  drawn.steps.push_back(Blur{.sigma = random.uniform(static_cast<double>(param.min_sigma()),
                                                     static_cast<double>(param.max_sigma()))});
}

std::optional<Erasure> Augmentation::draw_erasure(ImageSize sample,
                                                  const SampleRandom& random) const {
  if (!trains_ || !param_.has_erase_param()) return std::nullopt;
  const EraseParameter& param = param_.erase_param();
  Random numbers = random.of("erase");
  if (!taken(numbers, param.prob())) return std::nullopt;
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double area = numbers.uniform(static_cast<double>(param.min_area()),
                                        static_cast<double>(param.max_area()));
    const double aspect = draw_in_logarithm(static_cast<double>(param.min_aspect()),
                                            static_cast<double>(param.max_aspect()), numbers);
    const auto window = draw_window(sample, area, aspect, numbers);
    if (!window) continue;
    Erasure erasure{.window = *window, .value = fill_of(param.value()), .noise = {}};
    if (param.noise()) erasure.noise = numbers;
    return erasure;
  }
  return std::nullopt;
}

}  // namespace crema
