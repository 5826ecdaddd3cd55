#include "layers/annotated_data/box_sampling.hpp"

#include <algorithm>
#include <cmath>

#include "crema/error.hpp"
#include "layers/annotated_data/annotated_data.pb.h"
#include "proto/detection.pb.h"

namespace crema {
namespace {

Box common_part(const Box& a, const Box& b) {
  return {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
          std::min(a.bottom, b.bottom)};
}

/// 0 for what has none.
double area_of(const Box& box) {
  return box.left < box.right && box.top < box.bottom ? box.area() : 0;
}

/// Whether a share lies in the bounds that are set.
bool within(double share, bool has_least, float least, bool has_most, float most) {
  return !(has_least && share < static_cast<double>(least)) &&
         !(has_most && share > static_cast<double>(most));
}

/// Whether a box, in pixels, is left by rounding alone.
bool is_rounding(const Box& box) {
  constexpr double kLeast = 1e-3;
  return box.right - box.left < kLeast || box.bottom - box.top < kLeast;
}

void check_bounds(const char* what, bool good, float low, float high, const char* range) {
  if (good && low <= high) return;
  throw Error("annotated_data_param { batch_sampler { sampler } } draws ", what, " from ", low,
              " to ", high, "; give bounds in this order, ", range);
}

void check_share(const char* name, bool has_least, float least, bool has_most, float most) {
  const auto refuse = [&](const char* bound, float value) {
    throw Error("annotated_data_param { batch_sampler { sample_constraint { ", bound, "_", name,
                ": ", value, " } } } is no share; give 0 to 1, the least one first");
  };
  if (has_least && !(least >= 0 && least <= 1)) refuse("min", least);
  if (has_most && !(most >= 0 && most <= 1)) refuse("max", most);
  if (has_least && has_most && least > most) refuse("min", least);
}

void check(const BatchSampler& batch) {
  const BoxSampler& s = batch.sampler();
  check_bounds("scale", s.min_scale() > 0 && s.max_scale() <= 1, s.min_scale(), s.max_scale(),
               "above 0 and up to 1");
  check_bounds("aspect_ratio", s.min_aspect_ratio() > 0 && std::isfinite(s.max_aspect_ratio()),
               s.min_aspect_ratio(), s.max_aspect_ratio(), "above 0");
  const SampleConstraint& c = batch.sample_constraint();
  check_share("jaccard_overlap", c.has_min_jaccard_overlap(), c.min_jaccard_overlap(),
              c.has_max_jaccard_overlap(), c.max_jaccard_overlap());
  check_share("sample_coverage", c.has_min_sample_coverage(), c.min_sample_coverage(),
              c.has_max_sample_coverage(), c.max_sample_coverage());
  check_share("object_coverage", c.has_min_object_coverage(), c.min_object_coverage(),
              c.has_max_object_coverage(), c.max_object_coverage());
  constexpr uint32_t kMostTrials = 100000;
  if (batch.max_trials() > kMostTrials)
    throw Error("annotated_data_param { batch_sampler { max_trials: ", batch.max_trials(),
                " } } is more than ", kMostTrials, "; each sample draws so many crops");
  if (!batch.use_original_image())
    throw Error(
        "annotated_data_param { batch_sampler { use_original_image: false } } draws nothing, since "
        "samplers know the original image alone; remove it, or the sampler");
}

}  // namespace

Box draw_box(const BoxSampler& sampler, Random& random) {
  const double scale = random.uniform(static_cast<double>(sampler.min_scale()),
                                      static_cast<double>(sampler.max_scale()));
  double ratio = random.uniform(static_cast<double>(sampler.min_aspect_ratio()),
                                static_cast<double>(sampler.max_aspect_ratio()));
  ratio = std::clamp(ratio, scale * scale, 1 / (scale * scale));
  const double width = std::min(1.0, scale * std::sqrt(ratio));
  const double height = std::min(1.0, scale / std::sqrt(ratio));
  const double left = random.uniform(0, 1 - width), top = random.uniform(0, 1 - height);
  return {left, top, left + width, top + height};
}

bool is_satisfied(const SampleConstraint& c, const Box& crop, std::span<const LabeledBox> boxes) {
  const bool overlap = c.has_min_jaccard_overlap() || c.has_max_jaccard_overlap();
  const bool sample = c.has_min_sample_coverage() || c.has_max_sample_coverage();
  const bool object = c.has_min_object_coverage() || c.has_max_object_coverage();
  if (!overlap && !sample && !object) return true;
  const double crop_area = area_of(crop);
  return std::ranges::any_of(boxes, [&](const LabeledBox& labeled) {
    const double box_area = area_of(labeled.box);
    const double both = area_of(common_part(crop, labeled.box));
    const auto share = [both](double of) { return of > 0 ? both / of : 0; };
    return within(share(crop_area + box_area - both), c.has_min_jaccard_overlap(),
                  c.min_jaccard_overlap(), c.has_max_jaccard_overlap(), c.max_jaccard_overlap()) &&
           within(share(crop_area), c.has_min_sample_coverage(), c.min_sample_coverage(),
                  c.has_max_sample_coverage(), c.max_sample_coverage()) &&
           within(share(box_area), c.has_min_object_coverage(), c.min_object_coverage(),
                  c.has_max_object_coverage(), c.max_object_coverage());
  });
}

BoxSampling::BoxSampling(const AnnotatedDataParameter& param,
                         const TransformationParameter& transform, Phase phase) {
  for (const BatchSampler& sampler : param.batch_sampler()) check(sampler);
  if (phase == Phase::train)
    samplers_.assign(param.batch_sampler().begin(), param.batch_sampler().end());
  constrains_ = transform.has_emit_constraint();
  const EmitConstraint& emit = transform.emit_constraint();
  if (emit.emit_type() != EmitConstraint::MIN_OVERLAP) return;
  if (!(emit.emit_overlap() >= 0 && emit.emit_overlap() <= 1))
    throw Error("transform_param { emit_constraint { emit_overlap: ", emit.emit_overlap(),
                " } } is no share of a box; give 0 to 1");
  least_share_ = static_cast<double>(emit.emit_overlap());
}

std::optional<ImageWindow> BoxSampling::draw_crop(ImageSize image,
                                                  std::span<const LabeledBox> boxes,
                                                  Random random) const {
  std::vector<LabeledBox> relative(boxes.begin(), boxes.end());
  for (LabeledBox& labeled : relative) labeled.box = to_relative(labeled.box, image);
  std::vector<Box> crops;
  for (const BatchSampler& sampler : samplers_) {
    uint32_t found = 0;
    for (uint32_t trial = 0; trial < sampler.max_trials(); ++trial) {
      if (sampler.has_max_sample() && found >= sampler.max_sample()) break;
      const Box crop = draw_box(sampler.sampler(), random);
      if (!is_satisfied(sampler.sample_constraint(), crop, relative)) continue;
      ++found;
      crops.push_back(crop);
    }
  }
  if (crops.empty()) return std::nullopt;
  const Box crop = to_pixels(crops[random.below(crops.size())], image);
  // Whole pixels, so that boxes go exactly where the pixels go.
  ImageWindow window{.top = static_cast<int64_t>(crop.top),
                     .left = static_cast<int64_t>(crop.left)};
  const auto side = [](double from, double to, int64_t first, int64_t all) {
    return std::clamp<int64_t>(std::llround(to - from), 1, all - first);
  };
  window.top = std::min(window.top, image.height - 1);
  window.left = std::min(window.left, image.width - 1);
  window.height = side(crop.top, crop.bottom, window.top, image.height);
  window.width = side(crop.left, crop.right, window.left, image.width);
  if (window.height == image.height && window.width == image.width) return std::nullopt;
  return window;
}

DrawnSteps BoxSampling::draw(const Augmentation& augmentation, ImageSize image,
                             const SampleRandom& random, std::vector<LabeledBox>& boxes) const {
  DrawnSteps drawn = augmentation.draw_before_boxes(image, random);
  Geometry before(image);
  for (const ImageStep& step : drawn.steps) crema::apply(step, before);
  follow(before, boxes);
  if (const auto window = draw_crop(drawn.size, boxes, random.of("batch sampler"))) {
    Geometry cut(drawn.size);
    cut.cut(*window);
    follow(cut, boxes);
    drawn.steps.emplace_back(Cut{*window});
    drawn.size = {window->height, window->width};
    cut_first(image, drawn.steps);
  }
  const size_t done = drawn.steps.size();
  Geometry after(drawn.size);
  augmentation.draw_behind_boxes(random, drawn);
  for (size_t i = done; i < drawn.steps.size(); ++i) crema::apply(drawn.steps[i], after);
  follow(after, boxes);
  return drawn;
}

void BoxSampling::follow(const Geometry& geometry, std::vector<LabeledBox>& boxes) const {
  const ImageSize sample = geometry.sample_size();
  std::erase_if(boxes, [&](LabeledBox& labeled) {
    const Box moved = geometry.apply(labeled.box);
    const auto part = clipped(moved, sample);
    if (!part || is_rounding(*part) || (constrains_ && !stays(moved, sample, least_share_)))
      return true;
    labeled.box = *part;
    return false;
  });
}

}  // namespace crema
