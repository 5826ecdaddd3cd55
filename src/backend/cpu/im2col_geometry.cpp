#include "backend/cpu/im2col_geometry.hpp"

#include <algorithm>

namespace crema {

int64_t padded_bytes(const ConvolutionProblem& p) {
  int64_t bytes = p.source[1] / p.groups * static_cast<int64_t>(sizeof(float));
  for (size_t a = 0; a < p.pad.size(); ++a) {
    bytes *= p.source[static_cast<int>(a) + 2] + 2 * p.pad[a];
  }
  return bytes;
}

Im2colGeometry::Im2colGeometry(const ConvolutionProblem& p)
    : images(p.source[0] * p.groups),
      groups(p.groups),
      channels(p.source[1] / p.groups),
      outputs(p.target[1] / p.groups),
      kernel_width(p.kernel.back()),
      stride(p.stride.back()),
      dilation(p.dilation.back()),
      out_width(p.target[-1]),
      width_(p.source[-1]),
      target_image_(p.target_image > 0 ? p.target_image : p.target.count(1)) {
  const int axes = p.source.rank() - 2;
  if (axes == 2 && p.stride[0] == 1) {
    moving_rows = p.kernel[0];
    row_dilation = p.dilation[0];
    row_pitch = p.source[3] + 2 * p.pad[1];
  }
  std::vector<int64_t> pitch(static_cast<size_t>(axes));  // of a padded plane
  for (int axis = axes - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    pitch[a] = plane_;
    plane_ *= p.source[axis + 2] + 2 * p.pad[a];
  }
  // The places of all positions of a box, the last axis innermost.
  const auto places = [&](int last, const auto& extent, const auto& step) {
    std::vector<int64_t> found = {0};
    for (int axis = 0; axis < last; ++axis) {
      const auto a = static_cast<size_t>(axis);
      std::vector<int64_t> finer;
      for (const int64_t place : found) {
        for (int64_t i = 0; i < extent(a); ++i) finer.push_back(place + i * step(a) * pitch[a]);
      }
      found = std::move(finer);
    }
    return found;
  };
  const auto source = [&](size_t a) { return p.source[static_cast<int>(a) + 2]; };
  rows_ = places(axes - 1, source, [](size_t) { return 1; });
  for (int64_t& row : rows_) {
    for (size_t a = 0; a < pitch.size(); ++a) row += p.pad[a] * pitch[a];
  }
  pixel_at = places(
      axes, [&](size_t a) { return p.target[static_cast<int>(a) + 2]; },
      [&](size_t a) { return p.stride[a]; });
  const std::vector<int64_t> kernel = places(
      axes, [&](size_t a) { return p.kernel[a]; }, [&](size_t a) { return p.dilation[a]; });
  for (int64_t c = 0; c < channels; ++c) {
    for (const int64_t place : kernel) tap_at.push_back(c * plane_ + place);
  }
}

const float* Im2colGeometry::pad(const float* x, int64_t image, float* room) const {
  x += image * source();
  if (!pads()) {
    if (image + 1 < images && source() >= kGatherSlack) return x;
    std::copy_n(x, source(), room);
    return room;
  }
  std::fill_n(room, channels * plane_, 0.0F);
  for (int64_t c = 0; c < channels; ++c) {
    for (const int64_t row : rows_) {
      std::copy_n(x, width_, room + c * plane_ + row);
      x += width_;
    }
  }
  return room;
}

void Im2colGeometry::unpad(int64_t channel_begin, int64_t channel_end, const float* padded,
                           float* dx) const {
  dx += channel_begin * static_cast<int64_t>(rows_.size()) * width_;
  for (int64_t c = channel_begin; c < channel_end; ++c) {
    for (const int64_t row : rows_) {
      dx = std::copy_n(padded + c * plane_ + row, width_, dx);
    }
  }
}

}  // namespace crema
