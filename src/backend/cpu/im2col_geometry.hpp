// Where im2col (im2col_convolutions.cpp) finds the elements of images, in one piece of memory for
// each group of a sample, padded with zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/convolution.hpp"
#include "backend/cpu/im2col_kernels.hpp"

namespace crema {

/// Bytes of a padded image of one group.
int64_t padded_bytes(const ConvolutionProblem& problem);

/// Where the elements of the images of a problem lie: of one group, with padding.
class Im2colGeometry {
 public:
  explicit Im2colGeometry(const ConvolutionProblem& problem);

  int64_t pixels() const { return static_cast<int64_t>(pixel_at.size()); }
  int64_t taps() const { return static_cast<int64_t>(tap_at.size()); }
  int64_t weights() const { return outputs * taps(); }
  int64_t source() const { return channels * static_cast<int64_t>(rows_.size()) * width_; }
  int64_t target() const { return outputs * pixels(); }
  /// Where an image of one group begins in the target.
  int64_t target_at(int64_t image) const {
    return image / groups * target_image_ + image % groups * target();
  }
  /// Elements of a padded image of one group.
  int64_t padded() const { return channels * plane_ + kGatherSlack; }

  bool pads() const { return channels * plane_ != source(); }

  /// An image with its padding: in x, or copied to `room`, which has padded() elements. Gathering
  /// reads behind the end of an image, so that the last one is always copied.
  const float* pad(const float* x, int64_t image, float* room) const;
  /// Channels [channel_begin, channel_end) of a padded image, to an image without padding.
  void unpad(int64_t channel_begin, int64_t channel_end, const float* padded, float* dx) const;

  int64_t plane() const { return plane_; }
  size_t bytes() const {
    return (pixel_at.size() + tap_at.size() + rows_.size()) * sizeof(int64_t);
  }

  int64_t images, groups;                             // images: one for each group of each sample
  int64_t channels, outputs;                          // of a group
  int64_t kernel_width, stride, dilation, out_width;  // of the last axis
  /// Rows of a kernel of two axes that moves by one row of the image; else 1. The distance of
  /// its rows, in rows of the image, and of those, in elements.
  int64_t moving_rows = 1, row_dilation = 1, row_pitch = 0;
  std::vector<int64_t> pixel_at;  // the first element that each output pixel reads
  std::vector<int64_t> tap_at;    // from there, the element for each tap

 private:
  int64_t width_;
  int64_t target_image_;  // elements from a sample's image of the target to the next one's
  int64_t plane_ = 1;
  std::vector<int64_t> rows_;  // the place of each row of a channel in the padded plane
};

}  // namespace crema
