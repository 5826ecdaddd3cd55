#include "layers/window_data/window_cut.hpp"

#include <algorithm>
#include <cmath>

namespace crema {
namespace {

/// A side of the window, in one dimension: from `first` to `last`, both included.
struct Side {
  int64_t first, last;
};

struct SideCut {
  int64_t first, count;    // in the image
  int64_t to, to_count;    // in the sample
  int64_t padding_behind;  // in the sample
};

Side grown(float centre, float half) {
  return {std::lround(centre - half), std::lround(centre + half)};
}

/// Warps a side that may reach beyond [0, size) to `crop` pixels.
SideCut clipped(const Side& side, int64_t size, int64_t crop) {
  const float scale = static_cast<float>(crop) / static_cast<float>(side.last - side.first + 1);
  const int64_t before = std::max<int64_t>(0, -side.first);
  const int64_t behind = std::max<int64_t>(0, side.last - size + 1);
  const auto warped = [scale](int64_t pixels) -> int64_t {
    return std::lround(static_cast<float>(pixels) * scale);
  };
  SideCut cut;
  cut.first = side.first + before;
  cut.count = side.last - behind - cut.first + 1;
  cut.to = warped(before);
  cut.to_count = std::max<int64_t>(1, warped(cut.count));
  cut.padding_behind = warped(behind);
  return cut;
}

/// Rounding may make padding and pixels together larger than the sample.
void fit(int64_t& to, int64_t& count, int64_t crop) {
  to = std::min(to, crop - 1);
  count = std::min(count, crop - to);
}

}  // namespace

WindowCut cut_of(const Window& window, const WindowImage& image, const CutRules& rules,
                 bool mirrored) {
  Side x{window.x1, window.x2}, y{window.y1, window.y2};
  if (rules.context_pad > 0 || rules.square) {
    // In f32, as published: a half may round either way.
    const auto crop = static_cast<float>(rules.crop);
    const float context = crop / static_cast<float>(rules.crop - 2 * rules.context_pad);
    float half_width = static_cast<float>(x.last - x.first + 1) / 2;
    float half_height = static_cast<float>(y.last - y.first + 1) / 2;
    const float centre_x = static_cast<float>(x.first) + half_width;
    const float centre_y = static_cast<float>(y.first) + half_height;
    if (rules.square) half_width = half_height = std::max(half_width, half_height);
    x = grown(centre_x, half_width * context);
    y = grown(centre_y, half_height * context);
  }
  const SideCut across = clipped(x, image.width, rules.crop);
  const SideCut down = clipped(y, image.height, rules.crop);
  WindowCut cut{.left = across.first,
                .top = down.first,
                .width = across.count,
                .height = down.count,
                .to_left = mirrored ? across.padding_behind : across.to,
                .to_top = down.to,
                .to_width = across.to_count,
                .to_height = down.to_count};
  fit(cut.to_left, cut.to_width, rules.crop);
  fit(cut.to_top, cut.to_height, rules.crop);
  return cut;
}

}  // namespace crema
