// Vectorized pooling of f32 images. There are two kinds of memory:
//
//   planes   (H, W): one channel of a contiguous tensor
//   pixels   (H, W, channels): a channels_last image, or one block of channels of a blocked one
//
// The choice of a maximum is its cell in the window, ky * kernel_w + kx, or kNone.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "layers/pooling/pooling_math.hpp"

namespace crema {

/// No cell of the window gets a gradient.
template <class Choice>
inline constexpr Choice kNone = std::numeric_limits<Choice>::max();

/// The problem, with what kernels would otherwise compute again and again.
struct PoolingPlan {
  PoolingAxis y, x;
  bool maximum = true;   // or the average
  int64_t channels = 1;  // of a pixel

  std::vector<int32_t> first_cover, last_cover;  // of x, an input
  // Reciprocals of what averages divide by: that of output (oy, ox) is share_y[oy] * share_x[ox].
  std::vector<float> share_y, share_x;

  PoolingPlan() = default;
  PoolingPlan(const PoolingWindows& windows, bool maximum, int64_t channels);

  int64_t inputs() const { return y.size * x.size * channels; }
  int64_t outputs() const { return y.out * x.out * channels; }
  /// Windows of 2x2 cells that meet, and leave nothing out.
  bool pairs() const;
  /// Elements of each row of PoolingRows.
  int64_t row_width() const;
};

/// Room for the rows between the input and the output of a plane; each thread keeps its own.
struct PoolingRows {
  static constexpr size_t kBytes = 2 * sizeof(float) + 2 * sizeof(int32_t);  // of an element

  std::vector<float> values, phase_values;
  std::vector<int32_t> cells, phase_cells;
};

/// Choices of outputs, as bytes or as words. None are kept if both are null.
struct PoolingChoices {
  uint8_t* bytes = nullptr;
  int32_t* words = nullptr;

  PoolingChoices from(int64_t output) const {
    return {bytes ? bytes + output : nullptr, words ? words + output : nullptr};
  }
};

/// One plane. An average has no choices.
void pool_plane(const PoolingPlan& plan, const float* in, float* out, PoolingChoices choices);
void unpool_plane(const PoolingPlan& plan, const float* dy, PoolingChoices choices, float* dx);

/// One row of outputs of an image of pixels; `in`, `out` and `choices` start where the image
/// starts.
void pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
              PoolingChoices choices);
/// One row of inputs; each collects from the windows that hold it.
void unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, PoolingChoices choices,
                float* dx);

}  // namespace crema
