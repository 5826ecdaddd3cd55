// How our direct convolution walks through memory: what the three passes have in common.
//
// All formats are one here: memory is [image][block][h][w][unit], where `unit` channels lie side by
// side: 1 of them when contiguous, all when channels-last, the block's when blocked.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/convolution.hpp"
#include "backend/cpu/direct_kernels.hpp"

namespace crema {

struct DirectLayout {
  int64_t channels, unit, blocks, h, w;

  DirectLayout(int64_t channel_count, Format format, int64_t height, int64_t width);
  int64_t row() const { return w * unit; }
  int64_t block() const { return h * row(); }
  int64_t image() const { return blocks * block(); }
};

/// Elements of a kernel that lie side by side in the source, seen from an output pixel.
struct DirectRun {
  int64_t offset;     // of the first, from the pixel's own first element
  int64_t first_tap;  // its number among all taps
};

/// Some vectors of the columns of a product, as many as one kernel takes.
struct DirectPanel {
  int64_t first;  // vector
  int vectors;
  int64_t offset;  // of the panel's vectors before it, times the width: where its data starts
};

/// Splits so many vectors into panels that suit the kernels.
std::vector<DirectPanel> direct_panels(const DirectKernels& kernels, int64_t vectors);

/// Output pixels that are worked on together: all of some images, or some rows of one.
struct DirectBand {
  int64_t image, images, row, rows;
};

class DirectPlan {
 public:
  /// `whole_images`: windows are never parts of an image.
  DirectPlan(const ConvolutionProblem& problem, const DirectKernels& used, bool whole_images);

  /// Calls body(band) for bands that cover rows [begin, end) of the images' rows, which are
  /// numbered through.
  template <class Body>
  void each_band(int64_t begin, int64_t end, const Body& body) const {
    while (begin < end) {
      DirectBand band{begin / target.h, 1, begin % target.h, 0};
      if (band.row == 0 && end - begin >= target.h && band_images > 1) {
        band.images = std::min(band_images, (end - begin) / target.h);
        band.rows = target.h;
      } else {
        band.rows = std::min({band_rows, target.h - band.row, end - begin});
      }
      body(band);
      begin += band.images * band.rows;
    }
  }

  /// Pixels of the largest band.
  int64_t most_pixels() const { return static_cast<int64_t>(target_at.size()); }
  int64_t pixels(const DirectBand& band) const { return band.images * band.rows * target.w; }
  /// The source as the band's pixels see it: in place where there is no padding, else copied into
  /// scratch memory with its padding.
  const float* window_of(const DirectBand& band, const float* x) const;
  const float* target_of(const DirectBand& band, const float* y) const {
    return y + band.image * target.image() + band.row * target.row();
  }
  /// Copies a window of whole images without its padding into dx.
  void unpad(const DirectBand& band, const float* from, float* dx) const;

  const DirectKernels& kernels;
  DirectLayout source, target;
  int64_t batch, kernel_taps;  // taps of a plain kernel: channels * h * w
  int64_t stride_h, stride_w, pad_h, pad_w;
  bool padded;
  /// A window: of `band_images` images or `band_rows` rows.
  DirectLayout window;
  int64_t band_images = 1, band_rows = 1;

  /// Offset of each pixel of a band from the band's first in the window and in the target. Those of
  /// a smaller band are the first ones.
  std::vector<int64_t> source_at, target_at;
  /// The first of these of each row, in the window.
  std::vector<int64_t> row_at;
  /// Taps in the order of the window's memory, `run_length` a run.
  std::vector<DirectRun> runs;
  int64_t run_length = 0;
  /// Number of each tap in a plain kernel (c, h, w); -1 for the padding of a block.
  std::vector<int64_t> plain_tap;

 private:
  void find_taps(const ConvolutionProblem& problem);
  void place_pixels();
};

}  // namespace crema
