// Windows that slide over the spatial axes of (N, C, d1, d2...): the attributes kernel_shape,
// strides, pads, dilations, auto_pad and ceil_mode, and which elements a window has.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

/// One spatial axis. Place o of the output reads the places o * stride - begin + k * dilation of
/// the input, for k in [0, kernel).
struct WindowAxis {
  int64_t in = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;  // padding in front
  int64_t end = 0;    // padding behind
  int64_t out = 0;

  /// From the first element to the last one.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

/// One list for each spatial axis. The attribute may be missing: all are `otherwise` then. Error
/// for another number of values, and for values outside of [least, 2^31].
std::vector<int64_t> spatial_ints(const Call& call, std::string_view name, size_t axes,
                                  int64_t otherwise, int64_t least);
/// Begin and end of each axis, in the order of the attribute `pads`.
std::vector<int64_t> spatial_pads(const Call& call, size_t axes);
/// The attribute kernel_shape; `of_weights` (may be empty: there are none) has to agree with it.
std::vector<int64_t> kernel_shape(const Call& call, std::span<const int64_t> of_weights,
                                  size_t axes);

/// The axes of a convolution or pooling of input 0 with their output sizes. Error, naming the axis,
/// where a window is longer than the padded input.
std::vector<WindowAxis> window_axes(const Call& call, const std::vector<int64_t>& kernel);

/// (first two dimensions, output sizes).
Shape window_output(int64_t batch, int64_t channels, std::span<const WindowAxis> axes);
std::vector<int64_t> output_sizes(std::span<const WindowAxis> axes);
int64_t input_count(std::span<const WindowAxis> axes);
int64_t kernel_count(std::span<const WindowAxis> axes);
int64_t output_count(std::span<const WindowAxis> axes);

/// An element of a window: its index in the kernel and in the input, both contiguous.
struct Tap {
  int64_t kernel = 0;
  int64_t input = 0;
};

/// The elements of the window at `place` of the output that lie in the input, in the order of the
/// kernel. Reuses the memory of `taps`.
void find_taps(std::span<const WindowAxis> axes, std::span<const int64_t> place,
               std::vector<Tap>& taps);

}  // namespace crema::onnx
