#include "tools/raw_detections.hpp"

#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>

#include "tools/flags.hpp"

DECLARE_string(scores);
DEFINE_string(
    boxes, "",
    "The blob of boxes of a net without DetectionOutput, N x P x 4: xmin, ymin, xmax, ymax; "
    "with --priors, the offsets that CENTER_SIZE decodes. Needs --scores, N x P x classes.");
DEFINE_string(
    priors, "",
    "The blob of prior boxes that --boxes are offsets from, as PriorBox writes it. Where a "
    "program of the net's authors computes them, add PriorBox layers to the net.");
DEFINE_string(box_units, "relative",
              "Of --boxes without --priors: relative, 0 to 1, or pixels of the net's input.");
DEFINE_int32(background_label_id, 0,
             "Of --scores: the class that is no object; -1 if there is none. A single class is "
             "label 1.");
DEFINE_double(nms_threshold, 0.45,
              "Of --boxes: those that overlap a better one of their class by more are dropped.");

namespace crema::tools {
namespace {

/// Whether the values of a box are the last axis, or all are along the second one.
bool ends_with(const Shape& shape, int64_t values) {
  int last = shape.rank() - 1;
  while (last > 2 && shape[last] == 1 && values > 1) --last;
  return last < 2 || shape[last] == values || shape.count(2) == 1;
}

Tensor values_of(Net& net, const std::string& top) {
  return net.output(top).to(DType::f32, Format::contiguous);
}

}  // namespace

RawDetections::RawDetections() {
  if (!named()) {
    for (const char* flag :
         {"scores", "priors", "box_units", "background_label_id", "nms_threshold"}) {
      if (is_given(flag))
        throw Error("--", flag, " is for a net without DetectionOutput, and needs --boxes=BLOB");
    }
    return;
  }
  required_flag("scores", FLAGS_scores, "BLOB");
  if (FLAGS_box_units != "relative" && FLAGS_box_units != "pixels")
    throw Error("--box_units=", FLAGS_box_units, " is none of relative and pixels");
  if (!FLAGS_priors.empty() && is_given("box_units"))
    throw Error("--box_units is of boxes, and with --priors, --boxes are offsets; remove one");
  if (!(FLAGS_nms_threshold >= 0 && FLAGS_nms_threshold <= 1))
    throw Error("--nms_threshold ", FLAGS_nms_threshold,
                " is not in [0, 1]; it is the intersection over the union of two boxes");
  if (FLAGS_background_label_id < -1)
    throw Error("--background_label_id ", FLAGS_background_label_id,
                " is no class; give -1 if there is no background");
}

namespace {

/// Error if many boxes have a right edge left of their left one, or a lower edge above the upper
/// one: so have the offsets from prior boxes.
void check_corners(const std::vector<float>& edges) {
  size_t turned = 0;
  for (size_t i = 0; i < edges.size(); i += 4)
    turned += edges[i + 2] < edges[i] || edges[i + 3] < edges[i + 1] ? 1 : 0;
  if (4 * turned <= edges.size() / 4) return;
  throw Error("of ", edges.size() / 4, " boxes of '", FLAGS_boxes, "', ", turned,
              " have their right edge left of the left one, or the lower one above the upper one; "
              "if they are offsets from prior boxes, name the top of PriorBox with --priors");
}

}  // namespace

bool RawDetections::named() const { return !FLAGS_boxes.empty(); }

std::vector<std::string> RawDetections::tops() const {
  if (!named()) return {};
  std::vector<std::string> all = {FLAGS_boxes, FLAGS_scores};
  if (!FLAGS_priors.empty()) all.push_back(FLAGS_priors);
  return all;
}

RawDetections::Numbers RawDetections::numbers(Net& net) const {
  const Blob &boxes = net.blob(FLAGS_boxes), &scores = net.blob(FLAGS_scores);
  const auto refuse = [](const char* flag, const Blob& blob, const auto&... parts) {
    throw Error("--", flag, "=", blob.name, " (", blob.shape().str(), ") ", parts...);
  };
  constexpr const char* kPermute =
      "; of a map N x C x H x W, name a top after Permute { order: 0 order: 2 order: 3 order: 1 }";
  if (boxes.shape().rank() < 2 || boxes.shape().count(1) % 4 != 0 || boxes.count() == 0 ||
      !ends_with(boxes.shape(), 4))
    refuse("boxes", boxes, "is no N x P x 4 of boxes", kPermute);
  Numbers numbers{.priors = boxes.shape().count(1) / 4};
  if (scores.shape().rank() < 2 || scores.shape().count(1) % numbers.priors != 0 ||
      scores.count() == 0)
    refuse("scores", scores, "has no scores for each of the ", numbers.priors, " boxes of '",
           boxes.name, "' (", boxes.shape().str(), "): N x ", numbers.priors, " x classes");
  numbers.classes = scores.shape().count(1) / numbers.priors;
  if (!ends_with(scores.shape(), numbers.classes))
    refuse("scores", scores, "has not the ", numbers.classes, " scores of a box in its last axis",
           kPermute);
  if (FLAGS_background_label_id >= numbers.classes)
    throw Error("--background_label_id ", FLAGS_background_label_id, " is none of the ",
                numbers.classes, " classes of '", scores.name, "', which count from 0");
  if (FLAGS_priors.empty()) return numbers;
  const Blob& priors = net.blob(FLAGS_priors);
  if (prior_count(priors) != numbers.priors)
    refuse("priors", priors, "has ", prior_count(priors), " prior boxes, and '", boxes.name, "' (",
           boxes.shape().str(), ") has ", numbers.priors, " boxes an image");
  return numbers;
}

void RawDetections::check(Net& net, const Shape& sample) {
  sample_ = sample;
  for (const auto& [flag, top] :
       {std::pair{"boxes", FLAGS_boxes}, {"scores", FLAGS_scores}, {"priors", FLAGS_priors}}) {
    if (!top.empty() && !net.has_blob(top))
      throw Error("--", flag, "=", top, ": the net has no such top; its outputs are ",
                  joined(net.outputs()));
  }
  numbers(net);
}

std::vector<RawDetections::One> RawDetections::found(Net& net, int64_t images, double confidence) {
  for (const std::string& top : {FLAGS_boxes, FLAGS_scores}) {
    const Shape& shape = net.blob(top).shape();
    if (shape[0] == images) continue;
    throw Error("'", top, "' (", shape.str(), ") has ", shape[0],
                " along its first axis, and the batch has ", images,
                " images; a Reshape fixes it: give --batch=", shape[0],
                ", or write dim: 0 in place of it");
  }
  const Numbers of = numbers(net);
  const Tensor boxes = values_of(net, FLAGS_boxes), scores = values_of(net, FLAGS_scores);
  for (const float *score = scores.read<float>(), *end = score + scores.count(); score != end;
       ++score) {
    constexpr float kRounding = 1e-3F;
    if (*score < -kRounding || *score > 1 + kRounding)
      throw Error("'", FLAGS_scores, "' has ", *score,
                  ", and confidences are in [0, 1]; name a top after Softmax or Sigmoid");
  }
  // Without priors the boxes are offsets from (0, 0, 0, 0).
  const bool has_priors = !FLAGS_priors.empty();
  Tensor priors;
  if (has_priors) {
    priors = values_of(net, FLAGS_priors);
  } else {
    priors = Tensor(Shape{2, 4 * of.priors}, DType::f32);
    float* const to = priors.overwrite<float>();
    std::fill_n(to, 4 * of.priors, 0.0F);
    std::fill_n(to + 4 * of.priors, 4 * of.priors, 1.0F);
  }
  std::vector<float> edges(boxes.read<float>(), boxes.read<float>() + boxes.count());
  if (FLAGS_box_units == "pixels") {
    for (size_t i = 0; i < edges.size(); ++i)
      edges[i] /= static_cast<float>(i % 2 == 0 ? sample_[2] : sample_[1]);
  }
  if (!has_priors) check_corners(edges);
  const bool lone = of.classes == 1 && FLAGS_background_label_id == 0;
  DetectionSettings settings;
  settings.classes = of.classes;
  settings.background = lone ? -1 : FLAGS_background_label_id;
  settings.coder.code = has_priors ? BoxCode::center_size : BoxCode::corner;
  settings.suppression.threshold = FLAGS_nms_threshold;
  settings.least = std::nextafter(static_cast<float>(confidence), -1.0F);
  DetectionChoice<float> choice(settings);
  choice.run({.images = images,
              .priors = of.priors,
              .locations = edges.data(),
              .confidences = scores.read<float>(),
              .boxes = priors.read<float>(),
              .own_priors = false});
  std::vector<One> all;
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t label = 0; label < of.classes; ++label) {
      for (const Detection<float>& one : choice.of(image, label))
        all.push_back({image, static_cast<int32_t>(label + (lone ? 1 : 0)),
                       static_cast<double>(one.score), one.box});
    }
  }
  return all;
}

}  // namespace crema::tools
