// Transform: the published way of a record's pixels to a sample of the net,
//
//   top = (pixel - mean) * scale
//
// cropped (at random in TRAIN, the centre in TEST) and mirrored left to right (every other sample,
// in either phase). The mean belongs to the whole record: it is cropped and mirrored with it.
//
// Steps of augmentation (data/transform/augmentation.hpp) change the image before that.
//
// It comes in two steps. cut() runs when records are read ahead and keeps the pixels in the type
// they are stored in, a quarter of the memory of f32; convert() runs when the net takes the batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "crema/random.hpp"
#include "data/images/geometry.hpp"
#include "data/images/image.hpp"
#include "data/transform/augmentation.hpp"
#include "data/transform/mean_file.hpp"

namespace crema {

class TransformationParameter;  // proto/common.proto

/// Where a sample was cut out of its record.
struct Placement {
  int32_t top = 0, left = 0;
  bool mirrored = false;
};

/// Safe to use from many threads at once.
class Transform {
 public:
  /// Reads the mean file. Error for settings that contradict each other or are not implemented.
  Transform(const TransformationParameter& param, Phase phase);

  /// What is done to an image before all that follows here.
  const Augmentation& augmentation() const { return augmentation_; }

  /// (C, H, W) of what becomes of such a record. Error when the crop is larger than it, or the mean
  /// does not fit.
  Shape output_shape(const Image& image) const;
  /// (C, H, W) of the mean image; zeros without one.
  const Shape& mean_shape() const { return mean_.shape; }
  bool has_mean_image() const { return !mean_.values.empty(); }
  /// What is subtracted from pixels of that many channels: the mean image, or a value a channel.
  std::vector<float> means(int64_t channels) const;
  float scale() const { return scale_; }
  /// The mean of each channel of the mean image; none without one.
  std::vector<float> channel_means() const { return crema::channel_means(mean_); }
  /// Draws crop and mirror; `random` is the sample's own sequence.
  Placement place(const Image& image, Random random) const;
  /// The part of the image that the placement names.
  ImageWindow window(const Image& image, const Placement& placement) const;
  /// What the crop and mirroring do to what lies on the image.
  Geometry geometry(const Image& image, const Placement& placement) const;
  /// The pixels of window(): planes (C, H, W) of the output shape, in the image's own type (uint8_t
  /// or float). `image` has at least this part of the image that was placed.
  template <class Stored>
  void cut(const Image& image, const Placement& placement, Stored* out) const;
  /// Overwrites a rectangle of what cut() left, of `shape` (C, H, W). Error if the erasure does not
  /// fit the channels, or draws noise for floats.
  template <class Stored>
  void erase(const Erasure& erasure, const Shape& shape, const Placement& placement,
             Stored* out) const;
  /// Mean, scale and mirroring of what cut() left, of `shape` (C, H, W); T is float or double.
  template <class Stored, class T>
  void convert(const Stored* in, const Shape& shape, const Placement& placement, T* out) const;

 private:
  float mean_of_channel(int64_t channel) const;

  Phase phase_;
  float scale_;
  bool mirror_;
  ImageSize crop_;  // 0 and 0: none
  Augmentation augmentation_;
  std::vector<float> mean_values_;  // none, one, or one a channel
  std::string mean_path_;
  MeanImage mean_;  // no values without a mean file
};

}  // namespace crema
