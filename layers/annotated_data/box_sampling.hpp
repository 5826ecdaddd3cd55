// Box sampling: what AnnotatedData does with the boxes of its images. A crop is drawn by the
// samplers of annotated_data_param (the SSD fork's BatchSampler), and boxes go where their pixels
// go.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "crema/layer.hpp"
#include "data/boxes/annotation.hpp"
#include "data/images/geometry.hpp"
#include "data/transform/augmentation.hpp"

namespace crema {

class AnnotatedDataParameter;  // layers/annotated_data/annotated_data.proto
class BatchSampler;            // proto/detection.proto
class BoxSampler;
class SampleConstraint;

/// A crop, relative to the image, by a scale and an aspect ratio from the sampler's bounds: its
/// sides are scale * sqrt(ratio) and scale / sqrt(ratio), where the ratio is kept in [scale^2,
/// 1 / scale^2]. It lies inside the image.
Box draw_box(const BoxSampler& sampler, Random& random);

/// Whether one of the boxes satisfies all that the constraint says; true where it says nothing.
bool is_satisfied(const SampleConstraint& constraint, const Box& crop,
                  std::span<const LabeledBox> boxes);

/// Safe to use from many threads at once.
class BoxSampling {
 public:
  /// Samplers are for TRAIN. Error for bounds out of range.
  BoxSampling(const AnnotatedDataParameter& param, const TransformationParameter& transform,
              Phase phase);

  /// One of the crops of all samplers, of an image with these boxes (in pixels); none where no crop
  /// satisfies its constraint, or it is the whole image.
  std::optional<ImageWindow> draw_crop(ImageSize image, std::span<const LabeledBox> boxes,
                                       Random random) const;

  /// Draws the steps of an image before the net's crop: distort_param, expand_param, a crop of the
  /// samplers, and the others, as the fork has them. Boxes are in pixels of the image, then in
  /// those of what the steps make of it.
  DrawnSteps draw(const Augmentation& augmentation, ImageSize image, const SampleRandom& random,
                  std::vector<LabeledBox>& boxes) const;

  /// Moves the boxes (in pixels) where their pixels are, clips them to the sample, and drops those
  /// of which nothing is left or that emit_constraint does not let stay.
  void follow(const Geometry& geometry, std::vector<LabeledBox>& boxes) const;

 private:
  std::vector<BatchSampler> samplers_;
  bool constrains_ = false;
  std::optional<double> least_share_;  // of a box that stays; none: by its centre
};

}  // namespace crema
