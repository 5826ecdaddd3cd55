#include "data/transform/mixing.hpp"

#include <algorithm>
#include <cmath>

#include "crema/error.hpp"

namespace crema {
namespace {

/// The logarithm of a number from Gamma(alpha, 1): Marsaglia and Tsang, "A simple method for
/// generating gamma variables", 2000. The logarithm, since small alphas give numbers below all
/// doubles.
double draw_log_gamma(double alpha, Random& random) {
  if (alpha < 1) {
    const double boost = std::log(1 - random.uniform(0, 1)) / alpha;
    return draw_log_gamma(alpha + 1, random) + boost;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.gaussian(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.uniform(0, 1);  // above 0
    if (std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

void check(const char* name, const MixParameter& param) {
  if (!(param.prob() >= 0 && param.prob() <= 1))
    throw Error("transform_param { ", name, " { prob: ", param.prob(),
                " } } is no probability; give 0 to 1");
  if (!(param.alpha() > 0 && param.alpha() <= 1000))
    throw Error("transform_param { ", name, " { alpha: ", param.alpha(),
                " } } is outside (0, 1000]; 0.2 mixes a little, 1 evenly");
}

}  // namespace

double draw_beta(double alpha, Random& random) {
  const double a = draw_log_gamma(alpha, random), b = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

Mixing::Mixing(const TransformationParameter& param, Phase phase, int64_t batch_size)
    : param_(param.has_cutmix_param() ? param.cutmix_param() : param.mixup_param()),
      cuts_(param.has_cutmix_param()),
      batch_size_(batch_size),
      classes_(param.num_labels()) {
  const bool set = param.has_mixup_param() || param.has_cutmix_param();
  if (param.has_mixup_param() && param.has_cutmix_param())
    throw Error("transform_param has both mixup_param and cutmix_param; keep one of them");
  check("mixup_param", param.mixup_param());
  check("cutmix_param", param.cutmix_param());
  if (classes_ < 0 || classes_ == 1 || classes_ > 10'000'000)
    throw Error("transform_param { num_labels: ", classes_,
                " } is no number of classes; give 2 or more, or 0 for labels as numbers");
  if (set && classes_ == 0)
    throw Error("transform_param has ", cuts_ ? "cutmix_param" : "mixup_param",
                " and no num_labels; set the number of classes, since labels become distributions");
  if (set && phase == Phase::train && batch_size < 2)
    throw Error(cuts_ ? "cutmix_param" : "mixup_param",
                " mixes samples of a batch, and batch_size is ", batch_size, "; make it larger");
  active_ = set && phase == Phase::train;
}

Mix Mixing::draw(const SampleRandom& random, int64_t index, ImageSize sample) const {
  Random numbers = random.of(cuts_ ? "cutmix" : "mixup");
  if (!active_ || numbers.uniform() >= param_.prob()) return {};
  Mix mix{.share = draw_beta(static_cast<double>(param_.alpha()), numbers)};
  mix.partner = static_cast<int64_t>(numbers.below(static_cast<uint64_t>(batch_size_ - 1)));
  if (mix.partner >= index) ++mix.partner;
  if (!cuts_) return mix;
  const double side = std::sqrt(mix.share);
  const auto height = std::lround(static_cast<double>(sample.height) * side);
  const auto width = std::lround(static_cast<double>(sample.width) * side);
  const auto place = [&](int64_t room) {
    return static_cast<int64_t>(numbers.below(static_cast<uint64_t>(room + 1)));
  };
  const int64_t top = place(sample.height - height);
  mix.window = ImageWindow{
      .top = top, .left = place(sample.width - width), .height = height, .width = width};
  mix.share =
      static_cast<double>(height * width) / static_cast<double>(sample.height * sample.width);
  return mix;
}

template <class T>
void mix(const Mix& mix, const Shape& shape, const T* other, T* sample) {
  if (!mix.window) {
    const T share = static_cast<T>(mix.share), rest = 1 - share;
    for (int64_t i = 0; i < shape.count(); ++i) sample[i] = rest * sample[i] + share * other[i];
    return;
  }
  const ImageWindow& window = *mix.window;
  for (int64_t c = 0; c < shape[0]; ++c) {
    for (int64_t h = window.top; h < window.top + window.height; ++h) {
      const int64_t begin = (c * shape[1] + h) * shape[2] + window.left;
      std::copy_n(other + begin, window.width, sample + begin);
    }
  }
}

template <class T>
void class_distributions(const std::vector<double>& labels, const std::vector<Mix>& mixes,
                         int64_t classes, const std::function<std::string(int64_t)>& key_of,
                         T* out) {
  const auto count = static_cast<int64_t>(labels.size());
  for (int64_t n = 0; n < count; ++n) {
    const double label = labels[static_cast<size_t>(n)];
    if (!(label >= 0 && label < static_cast<double>(classes) && label == std::floor(label)))
      throw Error("record '", key_of(n), "': its label ", label, " is none of the ", classes,
                  " classes of num_labels; labels go from 0 to ", classes - 1,
                  ": raise num_labels, or fix the labels");
  }
  std::fill_n(out, count * classes, T{0});
  for (int64_t n = 0; n < count; ++n) {
    const Mix mix = mixes.empty() ? Mix() : mixes[static_cast<size_t>(n)];
    const auto at = [&](int64_t sample) -> T& {
      return out[n * classes + static_cast<int64_t>(labels[static_cast<size_t>(sample)])];
    };
    at(n) += static_cast<T>(1 - mix.share);
    if (mix.share > 0) at(mix.partner) += static_cast<T>(mix.share);
  }
}

template void mix(const Mix&, const Shape&, const float*, float*);
template void mix(const Mix&, const Shape&, const double*, double*);
template void class_distributions(const std::vector<double>&, const std::vector<Mix>&, int64_t,
                                  const std::function<std::string(int64_t)>&, float*);
template void class_distributions(const std::vector<double>&, const std::vector<Mix>&, int64_t,
                                  const std::function<std::string(int64_t)>&, double*);

}  // namespace crema
