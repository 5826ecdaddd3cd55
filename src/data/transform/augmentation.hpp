// Augmentation: what the settings of transform_param beyond mean, scale, crop and mirror do to a
// sample. Everything random is a function of (seed, layer, number of the sample, step), so it is
// the same for any number of threads and after a resume, and a step more changes no other step's
// numbers. Random steps are for TRAIN.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "crema/layer.hpp"
#include "crema/random.hpp"
#include "data/images/geometry.hpp"
#include "data/images/image.hpp"
#include "data/images/image_steps.hpp"
#include "proto/common.pb.h"

namespace crema {

/// Where a sample's random numbers come from.
struct SampleRandom {
  uint64_t seed = 0;
  uint64_t stream = 0;  // of the layer
  uint64_t number = 0;  // of the sample in the run
  int size = 0;         // of several resize_param, the one that its batch has

  /// Those of one step of augmentation.
  Random of(std::string_view step) const { return {seed, stream ^ stream_id(step), number}; }
};

/// What is done to one image before it is cropped.
struct DrawnSteps {
  std::vector<ImageStep> steps;
  ImageSize size;  // of the image then
};

/// A rectangle of a sample that is overwritten.
struct Erasure {
  ImageWindow window;
  Fill value;
  std::optional<Random> noise;  // draws bytes in place of `value`
};

/// Safe to use from many threads at once.
class Augmentation {
 public:
  /// Error for settings out of range, or that exclude each other.
  Augmentation(const TransformationParameter& param, Phase phase);

  /// How many sizes batches may have: that of each resize_param in TRAIN, of which one is drawn for
  /// a batch; else 1.
  int sizes() const { return trains_ ? std::max(1, param_.resize_param_size()) : 1; }
  /// Which of them a batch has; `of_batch` is numbered by its first sample.
  int draw_size(const SampleRandom& of_batch) const;
  /// Whether there are steps before the crop; they need bytes.
  bool has_steps() const { return has_steps_; }
  /// Error for steps that images of so many channels cannot go through, drawn or not.
  void check_channels(int64_t channels) const;
  DrawnSteps draw(ImageSize size, const SampleRandom& random) const;
  /// The same in another order, for images with boxes: distort_param and expand_param first, then a
  /// crop by the boxes, which the caller adds to `drawn`, then the rest.
  DrawnSteps draw_before_boxes(ImageSize size, const SampleRandom& random) const;
  void draw_behind_boxes(const SampleRandom& random, DrawnSteps& drawn) const;
  /// Of a sample of this size, cropped and mirrored.
  std::optional<Erasure> draw_erasure(ImageSize sample, const SampleRandom& random) const;

 private:
  void check_resizing() const;
  void check_sizes() const;
  void check_cropping() const;
  void check_pixels() const;

  void draw_rest(const SampleRandom& random, bool distorts, DrawnSteps& drawn) const;
  void expand(Random random, DrawnSteps& drawn) const;
  void pad(DrawnSteps& drawn) const;
  void resize(int which, Random random, DrawnSteps& drawn) const;
  void resize_shorter_side(Random random, DrawnSteps& drawn) const;
  void random_crop(Random random, DrawnSteps& drawn) const;
  void random_aspect_ratio(Random random, DrawnSteps& drawn) const;
  void rotate(Random random, DrawnSteps& drawn) const;
  void distort(Random random, DrawnSteps& drawn) const;
  void add_noise(Random random, DrawnSteps& drawn) const;
  void blur(Random random, DrawnSteps& drawn) const;

  TransformationParameter param_;
  bool trains_;
  ImageSize crop_;  // 0 and 0: none
  bool has_steps_ = false;
};

/// crop_h and crop_w, or crop_size for both; 0 and 0 without. Error when they disagree.
ImageSize crop_of(const TransformationParameter& param);

}  // namespace crema
