// The numbers of a convolution: its settings read from the message, checked, and completed by the
// shape of its bottom.
//
// A deconvolution is the transposed convolution: its forward pass is the backward pass of a
// convolution to the data. The numbers are those of that convolution, whose output is the bottom of
// the layer, and whose input is the top.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/shape.hpp"

namespace crema {

class ConvolutionParameter;  // layers/convolution/convolution.proto

struct ConvolutionGeometry {
  /// `depthwise`: where `group` is not set, there are as many groups as channels.
  enum class Kind : uint8_t { convolution, depthwise, deconvolution };

  ConvolutionGeometry() = default;
  /// Settings that make no sense whatever the bottom is are Errors here.
  ConvolutionGeometry(const ConvolutionParameter& param, Kind kind);

  /// Takes axes and channels from the bottom's shape; once, before fit.
  void set_up(const Shape& bottom);
  /// Takes the extents from the bottom's shape. Error when it does not suit what set_up saw, or
  /// when the kernel does not fit in.
  void fit(const Shape& bottom);

  int spatial_axes() const { return static_cast<int>(kernel.size()); }
  /// (outputs, channels / groups, kernel...)
  Shape weights() const;
  /// The bottom's shape with channels and extents replaced.
  Shape top(const Shape& bottom) const;
  bool transposed() const { return kind == Kind::deconvolution; }
  int64_t top_channels() const { return transposed() ? channels : outputs; }
  int64_t top_positions() const { return transposed() ? elements() : positions(); }
  /// Elements of one channel's kernel, of its input and of its output.
  int64_t taps() const;
  int64_t elements() const;
  int64_t positions() const;
  /// Elements of one output's kernel: channels / groups * kernel...
  int64_t kernel_count() const { return channels / groups * taps(); }
  /// Each input element serves one output position: nothing need be copied.
  bool is_pointwise() const;

  Kind kind = Kind::convolution;
  int64_t outputs = 0, groups = 1;
  bool bias = true;
  int axis = 1;                                        // of the channels
  int rank = 0;                                        // of the bottom
  int64_t channels = 0;                                // of the input
  std::vector<int64_t> kernel, stride, pad, dilation;  // one entry a spatial axis
  int64_t batch = 0;                                   // product of the axes before the channels
  std::vector<int64_t> input, output;                  // extents of the spatial axes

 private:
  void split_outputs() const;

  struct Given {
    std::vector<int64_t> values;  // none, one for all axes, or one an axis
    bool by_image_axes = false;   // from the *_h and *_w pair
    std::string name;
  };
  /// The extent of the top along a spatial axis.
  int64_t top_extent(const Shape& bottom, int spatial_axis) const;
  std::vector<int64_t> per_axis(const Given& given, int64_t otherwise, int64_t least) const;

  bool group_a_channel_ = false;
  Given given_kernel_, given_stride_, given_pad_, given_dilation_;
};

}  // namespace crema
