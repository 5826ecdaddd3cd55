#include "data/images/image_steps.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "crema/error.hpp"

namespace crema {

std::optional<Interpolation> interpolation_named(const std::string& name, const char* setting) {
  if (name.empty()) return std::nullopt;
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::pair<const char*, Interpolation> modes[] = {{"linear", Interpolation::linear},
                                                         {"area", Interpolation::area},
                                                         {"nearest", Interpolation::nearest},
                                                         {"cubic", Interpolation::cubic},
                                                         {"lanczos4", Interpolation::lanczos4}};
  for (const auto& [mode, interpolation] : modes) {
    if (lower == mode) return interpolation;
  }
  throw Error(setting, name, " is no interpolation; give linear, area, nearest, cubic or lanczos4");
}

void apply(const ImageStep& step, Geometry& geometry) {
  if (const auto* resize = std::get_if<Resize>(&step)) geometry.resize(resize->size);
  if (const auto* cut = std::get_if<Cut>(&step)) geometry.cut(cut->window);
  if (const auto* pad = std::get_if<Pad>(&step)) geometry.cut(pad->window);
  if (const auto* rotate = std::get_if<Rotate>(&step)) geometry.rotate(rotate->degrees);
}

namespace {

bool changes_pixels_alone(const ImageStep& step) {
  return std::holds_alternative<Linear>(step) || std::holds_alternative<Saturate>(step) ||
         std::holds_alternative<TurnHue>(step) || std::holds_alternative<Permute>(step);
}

/// What the window has of a padded image of this size, and the padding that is left around it; none
/// if it has none of the image.
std::optional<std::pair<ImageWindow, Pad>> cut_of_padded(ImageSize size, const Pad& pad,
                                                         const ImageWindow& window) {
  // In the image's own pixels.
  const int64_t top = window.top + pad.window.top, left = window.left + pad.window.left;
  const int64_t first_row = std::max<int64_t>(top, 0), first_column = std::max<int64_t>(left, 0);
  const int64_t rows = std::min(top + window.height, size.height) - first_row;
  const int64_t columns = std::min(left + window.width, size.width) - first_column;
  if (rows <= 0 || columns <= 0) return std::nullopt;
  Pad rest{.window = {.top = top - first_row,
                      .left = left - first_column,
                      .height = window.height,
                      .width = window.width},
           .mode = pad.mode,
           .fill = pad.fill};
  return std::pair{
      ImageWindow{.top = first_row, .left = first_column, .height = rows, .width = columns},
      std::move(rest)};
}

}  // namespace

void cut_first(ImageSize size, std::vector<ImageStep>& steps) {
  if (steps.empty() || !std::holds_alternative<Cut>(steps.back())) return;
  size_t at = steps.size() - 1;  // of the cut
  while (at > 0) {
    if (changes_pixels_alone(steps[at - 1])) {
      std::swap(steps[at], steps[at - 1]);
      --at;
      continue;
    }
    const auto* pad = std::get_if<Pad>(&steps[at - 1]);
    if (pad == nullptr || pad->mode != Pad::Mode::constant) return;
    Geometry before(size);
    for (size_t i = 0; i + 1 < at; ++i) crema::apply(steps[i], before);
    auto split = cut_of_padded(before.sample_size(), *pad, std::get<Cut>(steps[at]).window);
    if (!split) return;
    const auto& [window, rest] = *split;
    const bool pads = rest.window.height != window.height || rest.window.width != window.width;
    steps[at - 1] = Cut{window};
    if (pads) {
      steps[at] = std::move(split->second);
    } else {
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
    }
    --at;
  }
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
  if (!scalable || resize == nullptr || resize->exact ||
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
