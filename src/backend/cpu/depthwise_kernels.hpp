// The inner loops of our depthwise convolution (depthwise_convolutions.cpp), in f32 by Highway. The
// lanes of a vector are adjacent channels of one pixel; those that a pixel has side by side are cut
// into strips of `width`, the last of which may have fewer lanes.
//
// A group has `group` channels, 1 where the convolution is depthwise, and divides the width. In
// turn r of a tap, 0 <= r < group, lane i of a result meets lane i ^ r of a source: after all
// turns, each lane has met each of its group. Weights lie as [strip][tap][r][width], with zeros
// behind the channels of a strip: those of turn r and lane i lead from channel i ^ r to i.
#pragma once

#include <cstdint>

namespace crema {

/// Results along one axis that read the same taps of the kernel. Result i is written at
/// out + i * out_step; its tap m has the weights at weights + m * weights_step, and reads the
/// source at in + i * in_step + m * in_tap. All are floats; the offsets of both axes add up. A tap
/// has the weights of all turns.
struct DepthwisePart {
  int64_t count = 0, taps = 0;
  int64_t in = 0, in_step = 0, in_tap = 0;
  int64_t out = 0, out_step = 0;
  int64_t weights = 0, weights_step = 0;
};

/// Where the results of a block of channels come from and go to: each is
/// finish(bias + sum over the taps of weight * source).
struct DepthwiseBlock {
  const float *in, *weights;
  float* out;
  const float* bias;  // (strips, width); null: 0
  int64_t group;      // channels of one
  int64_t strips, weights_strip;
  int64_t last_lanes;  // of the last strip
  bool adds = false;   // to what is in `out`
  bool relu = false;   // finish: a ReLU with this slope for negative values
  float slope = 0;
};

/// Gradients of the weights of one strip: adds to those at `sums`, in the places of the weights,
/// the sums over all results, of some images, of gradient * source. The gradient lies as the
/// results do. Lanes are those of the source here: turn r and lane i lead from channel i to i ^ r.
struct DepthwiseSums {
  const float *in, *gradient;
  int64_t images, in_image, gradient_image;
  float* sums;
  int64_t lanes;
  int64_t group;
};

struct DepthwiseKernels {
  int64_t width;  // lanes of a vector
  /// The results that are in `rows` and in one of the `count` parts at `columns`.
  void (*results)(const DepthwisePart& rows, const DepthwisePart* columns, int64_t count,
                  const DepthwiseBlock& block);
  void (*sums)(const DepthwisePart& rows, const DepthwisePart* columns, int64_t count,
               const DepthwiseSums& sums);
  /// Adds the sum of `pixels` pixels, which lie `pixel` floats apart, to `sums` (width).
  void (*pixel_sums)(const float* from, int64_t pixels, int64_t pixel, int64_t lanes, float* sums);
};

/// For the instructions that this processor has.
const DepthwiseKernels& depthwise_kernels();

}  // namespace crema
