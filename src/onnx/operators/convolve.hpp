// A convolution on the host, for Conv and its forms with integers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "onnx/operators/windows.hpp"

namespace crema::onnx {

inline constexpr int kMaxSpatialAxes = 6;

struct ConvolutionShape {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t group = 1;
  std::vector<WindowAxis> axes;

  Shape output() const { return window_output(batch, out_channels, axes); }
};

/// Of input 0, the weights (an input) and the bias (an input that may be missing). Error where they
/// do not fit.
ConvolutionShape convolution_shape(const Call& call, size_t weights, size_t bias);

/// x (N, C, in...) and w (M, C / group, kernel...) to (N, M, out...).
std::vector<double> convolve(const ConvolutionShape& shape, const std::vector<double>& x,
                             const std::vector<double>& w);

/// The values of input i, one for each channel: the input has one, or one for each. 0 without it.
std::vector<double> zero_points(const Call& call, size_t i, std::string_view what,
                                int64_t channels);

}  // namespace crema::onnx
