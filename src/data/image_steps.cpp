#include "data/image_steps.hpp"

#include <algorithm>

namespace crema {

void apply(const ImageStep& step, Geometry& geometry) {
  if (const auto* resize = std::get_if<Resize>(&step)) geometry.resize(resize->size);
  if (const auto* cut = std::get_if<Cut>(&step)) geometry.cut(cut->window);
  if (const auto* pad = std::get_if<Pad>(&step)) geometry.cut(pad->window);
  if (const auto* rotate = std::get_if<Rotate>(&step)) geometry.rotate(rotate->degrees);
}

DecodePlan plan_decoding(ImageSize size, bool scalable, std::vector<ImageStep>& steps) {
  DecodePlan plan{.window = {.height = size.height, .width = size.width}};
  if (!steps.empty()) {
    if (const auto* cut = std::get_if<Cut>(&steps[0])) {
      plan.window = cut->window;
      steps.erase(steps.begin());
    }
  }
  const auto* resize = steps.empty() ? nullptr : std::get_if<Resize>(&steps[0]);
  if (!scalable || resize == nullptr || !resize->averages ||
      resize->interpolation == Interpolation::nearest)
    return plan;
  const ImageWindow whole = plan.window;
  const auto enough = [&](int eighths) {
    return whole.height * eighths >= 2 * 8 * resize->size.height &&
           whole.width * eighths >= 2 * 8 * resize->size.width;
  };
  while (plan.eighths > 1 && enough(plan.eighths / 2)) plan.eighths /= 2;
  if (plan.eighths == 8) return plan;
  const auto scaled = [&](int64_t begin, int64_t count, int64_t side, int64_t& to, int64_t& sides) {
    const int64_t last = (side * plan.eighths + 7) / 8;
    to = (begin * plan.eighths + 4) / 8;
    const int64_t end = std::min(last, ((begin + count) * plan.eighths + 4) / 8);
    sides = (begin + count == side ? last : end) - to;
  };
  scaled(whole.top, whole.height, size.height, plan.window.top, plan.window.height);
  scaled(whole.left, whole.width, size.width, plan.window.left, plan.window.width);
  return plan;
}

}  // namespace crema
