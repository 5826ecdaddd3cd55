// PriorBox: default boxes of several sizes and aspect ratios. See README.md.
#include <cmath>

#include "layer_support/unused_settings.hpp"
#include "layers/prior_box/prior_boxes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr double kSame = 1e-6;  // ratios that differ by less are one

std::vector<double> ratios_of(const PriorBoxParameter& settings) {
  std::vector<double> ratios = {1};
  const auto add = [&](double ratio) {
    for (const double other : ratios) {
      if (std::abs(ratio - other) < kSame) return;
    }
    ratios.push_back(ratio);
  };
  for (const float given : settings.aspect_ratio()) {
    const auto ratio = static_cast<double>(given);
    if (!(ratio > 0 && std::isfinite(ratio)))
      throw Error("aspect_ratio ", given, " is not above 0; it is width over height");
    const size_t before = ratios.size();
    add(ratio);
    if (settings.flip() && ratios.size() > before) ratios.push_back(1 / ratio);
  }
  return ratios;
}

/// Of each min_size: the square, the square between it and max_size, and the aspect ratios.
std::vector<PriorBoxLayer::Size> sizes_of(const PriorBoxParameter& settings) {
  if (settings.min_size_size() == 0)
    throw Error("min_size is missing; say prior_box_param { min_size: 30 }, in pixels");
  if (settings.max_size_size() != 0 && settings.max_size_size() != settings.min_size_size())
    throw Error(settings.max_size_size(), " values of max_size for ", settings.min_size_size(),
                " of min_size; give one each, or none");
  const std::vector<double> ratios = ratios_of(settings);
  std::vector<PriorBoxLayer::Size> sizes;
  for (int s = 0; s < settings.min_size_size(); ++s) {
    // Whole pixels, as published: trained models depend on it.
    const double least = std::trunc(static_cast<double>(settings.min_size(s)));
    if (!(least > 0)) throw Error("min_size ", settings.min_size(s), " is below one pixel");
    sizes.push_back({least, least});
    if (settings.max_size_size() != 0) {
      if (!(settings.max_size(s) > settings.min_size(s)))
        throw Error("max_size ", settings.max_size(s), " is not above its min_size, ",
                    settings.min_size(s));
      const double most = std::trunc(static_cast<double>(settings.max_size(s)));
      const double side = std::sqrt(least * most);
      sizes.push_back({side, side});
    }
    for (const double ratio : ratios) {
      if (std::abs(ratio - 1) < kSame) continue;
      sizes.push_back({least * std::sqrt(ratio), least / std::sqrt(ratio)});
    }
  }
  return sizes;
}

class SizesAndRatios : public PriorBoxLayer {
 public:
  explicit SizesAndRatios(const LayerInit& init)
      : PriorBoxLayer(init, sizes_of(init.param.prior_box_param())) {
    warn_without_effect(init, init.param.prior_box_param(), {"width", "height"},
                        "on PriorBox; they are of PriorBoxClustered");
  }
};

}  // namespace

void register_prior_box(Registry& registry) { add_two_sided<SizesAndRatios>(registry, "PriorBox"); }

}  // namespace crema
