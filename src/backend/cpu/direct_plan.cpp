#include "backend/cpu/direct_plan.hpp"

#include <algorithm>

#include "backend/cpu/convolution_scratch.hpp"

namespace crema {
namespace {

/// What a band's window may take, to stay in a core's own cache beside the weights.
constexpr int64_t kWindowBytes = 160 << 10;
/// Pixels of a band: enough to use what was loaded of the weights many times.
constexpr int64_t kBandPixels = 512;

/// One spatial axis is treated as two, the first of extent 1.
int64_t of_axis(const std::vector<int64_t>& values, size_t axis, int64_t otherwise) {
  return values.size() == 2 ? values[axis] : axis == 1 ? values[0] : otherwise;
}

int64_t height(const Shape& shape) { return shape.rank() == 4 ? shape[2] : 1; }

}  // namespace

DirectLayout::DirectLayout(int64_t channel_count, Format format, int64_t rows, int64_t columns)
    : channels(channel_count),
      unit(format == Format::channels_last ? channel_count : block_of(format)),
      blocks((channel_count + unit - 1) / unit),
      h(rows),
      w(columns) {}

std::vector<DirectPanel> direct_panels(const DirectKernels& kernels, int64_t vectors) {
  int64_t most = DirectKernels::kMaxVectors;
  while (kernels.rows[most] == 0) --most;
  std::vector<DirectPanel> panels;
  for (int64_t first = 0; first < vectors;) {
    const int64_t left = vectors - first;
    // Rather two panels of middle width than a wide and a very narrow one.
    const int64_t take = left == most + 1 ? (left + 1) / 2 : std::min(left, most);
    panels.push_back({first, static_cast<int>(take), first * kernels.width});
    first += take;
  }
  return panels;
}

DirectPlan::DirectPlan(const ConvolutionProblem& p, const DirectKernels& used, bool whole_images)
    : kernels(used),
      source(p.source[1], p.source_format, height(p.source), p.source[-1]),
      target(p.target[1], p.target_format, height(p.target), p.target[-1]),
      batch(p.source[0]),
      kernel_taps(p.weights().count(1)),
      stride_h(of_axis(p.stride, 0, 1)),
      stride_w(of_axis(p.stride, 1, 1)),
      pad_h(of_axis(p.pad, 0, 0)),
      pad_w(of_axis(p.pad, 1, 0)),
      padded(whole_images || pad_h > 0 || pad_w > 0),
      window(source) {
  const int64_t reach_h = of_axis(p.dilation, 0, 1) * (of_axis(p.kernel, 0, 1) - 1) + 1;
  const int64_t reach_w = of_axis(p.dilation, 1, 1) * (of_axis(p.kernel, 1, 1) - 1) + 1;
  const auto rows_seen = [&](int64_t rows) { return (rows - 1) * stride_h + reach_h; };
  if (padded) window.w = (target.w - 1) * stride_w + reach_w;
  const auto window_bytes = [&](int64_t rows) {
    return source.blocks * rows_seen(rows) * window.row() * static_cast<int64_t>(sizeof(float));
  };
  band_rows = target.h;
  const int64_t image_bytes = window_bytes(target.h), image_pixels = target.h * target.w;
  if (2 * image_bytes <= kWindowBytes && 2 * image_pixels <= kBandPixels) {
    band_images = std::min({batch, kWindowBytes / image_bytes, kBandPixels / image_pixels});
  } else {
    while (band_rows > 1 &&
           (band_rows * target.w > kBandPixels || window_bytes(band_rows) > kWindowBytes)) {
      band_rows = (band_rows + 1) / 2;
    }
  }
  if (padded) window.h = rows_seen(whole_images ? target.h : band_rows);
  find_taps(p);
  place_pixels();
}

void DirectPlan::find_taps(const ConvolutionProblem& p) {
  const int64_t kernel_h = of_axis(p.kernel, 0, 1), kernel_w = of_axis(p.kernel, 1, 1);
  const int64_t dilation_h = of_axis(p.dilation, 0, 1), dilation_w = of_axis(p.dilation, 1, 1);
  // Columns of the kernel that lie side by side make one run.
  const int64_t joined = dilation_w == 1 ? kernel_w : 1;
  run_length = joined * window.unit;
  for (int64_t block = 0; block < window.blocks; ++block) {
    for (int64_t h = 0; h < kernel_h; ++h) {
      for (int64_t w = 0; w < kernel_w; w += joined) {
        runs.push_back(
            {block * window.block() + h * dilation_h * window.row() + w * dilation_w * window.unit,
             static_cast<int64_t>(plain_tap.size())});
        for (int64_t i = 0; i < run_length; ++i) {
          const int64_t c = block * window.unit + i % window.unit;
          const int64_t plain = (c * kernel_h + h) * kernel_w + w + i / window.unit;
          plain_tap.push_back(c < source.channels ? plain : -1);
        }
      }
    }
  }
}

void DirectPlan::place_pixels() {
  for (int64_t image = 0; image < band_images; ++image) {
    for (int64_t h = 0; h < band_rows; ++h) {
      row_at.push_back(image * window.image() + h * stride_h * window.row());
      for (int64_t w = 0; w < target.w; ++w) {
        source_at.push_back(row_at.back() + w * stride_w * window.unit);
        target_at.push_back(image * target.image() + h * target.row() + w * target.unit);
      }
    }
  }
}

const float* DirectPlan::window_of(const DirectBand& band, const float* x) const {
  const int64_t first_row = band.row * stride_h - pad_h;
  if (!padded) return x + band.image * source.image() + first_row * source.row();
  float* const to = convolution_scratch(ConvolutionScratch::window, band_images * window.image());
  const int64_t unit = source.unit, left = std::min(pad_w, window.w);
  const int64_t middle = std::clamp<int64_t>(window.w - left, 0, source.w);
  const int64_t right = window.w - left - middle;
  for (int64_t plane = 0; plane < band.images * source.blocks; ++plane) {
    const float* const from = x + band.image * source.image() + plane * source.block();
    for (int64_t h = 0; h < window.h; ++h) {
      float* const row = to + plane * window.block() + h * window.row();
      const int64_t from_row = first_row + h;
      if (from_row < 0 || from_row >= source.h) {
        std::fill_n(row, window.row(), 0.0F);
        continue;
      }
      std::fill_n(row, left * unit, 0.0F);
      std::copy_n(from + from_row * source.row(), middle * unit, row + left * unit);
      std::fill_n(row + (left + middle) * unit, right * unit, 0.0F);
    }
  }
  return to;
}

void DirectPlan::unpad(const DirectBand& band, const float* from, float* dx) const {
  const int64_t unit = source.unit;
  const int64_t seen = std::clamp<int64_t>(window.w - pad_w, 0, source.w);
  for (int64_t plane = 0; plane < band.images * source.blocks; ++plane) {
    float* const to = dx + band.image * source.image() + plane * source.block();
    for (int64_t h = 0; h < source.h; ++h) {
      float* const row = to + h * source.row();
      // Rows and columns that no output saw have no gradient.
      const int64_t columns = h + pad_h < window.h ? seen : 0;
      std::copy_n(from + plane * window.block() + (h + pad_h) * window.row() + pad_w * unit,
                  columns * unit, row);
      std::fill_n(row + columns * unit, (source.w - columns) * unit, 0.0F);
    }
  }
}

}  // namespace crema
