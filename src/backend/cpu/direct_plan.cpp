#include "backend/cpu/direct_plan.hpp"

#include <algorithm>
#include <numeric>

#include "backend/cpu/convolution_scratch.hpp"
#include "core/cache_size.hpp"
#include "core/parallel.hpp"
#include "core/transpose.hpp"

namespace crema {
namespace {

/// One spatial axis is treated as two, the first of extent 1.
int64_t of_axis(const std::vector<int64_t>& values, size_t axis, int64_t otherwise) {
  return values.size() == 2 ? values[axis] : axis == 1 ? values[0] : otherwise;
}

int64_t height(const Shape& shape) { return shape.rank() == 4 ? shape[2] : 1; }

DirectLayout layout_of(const Shape& shape, Format format) {
  return {shape[1], format, height(shape), shape[-1]};
}

struct Axis {
  int64_t source, target, kernel, stride, pad, dilation;

  Axis(const ConvolutionProblem& p, size_t axis)
      : source(axis == 0 ? height(p.source) : p.source[-1]),
        target(axis == 0 ? height(p.target) : p.target[-1]),
        kernel(of_axis(p.kernel, axis, 1)),
        stride(of_axis(p.stride, axis, 1)),
        pad(of_axis(p.pad, axis, 0)),
        dilation(of_axis(p.dilation, axis, 1)) {}

  DirectAxis forward() const {
    return {
        .pixels = target, .stride = stride, .offset = -pad, .taps = kernel, .dilation = dilation};
  }

  /// Pixel q of the source, with q % stride == residue, and tap t meet in output (q + pad - t *
  /// dilation) / stride. No taps if none divides.
  DirectAxis backward(int64_t residue) const {
    DirectAxis axis{
        .pixels = (source - residue + stride - 1) / stride, .first = residue, .step = stride};
    const int64_t every = stride / std::gcd(stride, dilation);
    int64_t tap = 0;
    while (tap < std::min(every, kernel) && (residue + pad - tap * dilation) % stride != 0) ++tap;
    if (tap >= std::min(every, kernel)) return axis;
    axis.taps = (kernel - 1 - tap) / every + 1;
    // The last tap reads the first output.
    axis.first_tap = tap + (axis.taps - 1) * every;
    axis.tap_step = -every;
    axis.offset = (residue + pad - axis.first_tap * dilation) / stride;
    axis.dilation = every * dilation / stride;
    return axis;
  }
};

/// Between the vectors of a panel, which are side by side for each tap.
struct PackedPlace {
  float* to;
  int64_t lanes;  // of the panel
};

/// Calls body(place, channel, count) for all vectors of columns; the place is that of the first
/// tap.
template <class Body>
void each_vector(const std::vector<DirectPanel>& panels, int width, int64_t taps, float* packed,
                 const Body& body) {
  const int64_t vectors = panels.back().first + panels.back().vectors;
  parallel_for(vectors, 1, [&](int64_t begin, int64_t end) {
    for (const DirectPanel& panel : panels) {
      const int64_t lanes = int64_t{panel.vectors} * width;
      for (int v = 0; v < panel.vectors; ++v) {
        const int64_t vector = panel.first + v;
        if (vector < begin || vector >= end) continue;
        body(PackedPlace{packed + panel.first * width * taps + int64_t{v} * width, lanes},
             vector * width);
      }
    }
  });
}

/// A few channels of the source whose weights lie side by side.
constexpr int64_t kBrickChannels = 16;

/// Calls body(first channel, count, block, channel in the block) for bricks of the source's
/// channels.
template <class Body>
void each_brick(const DirectProduct& p, const Body& body) {
  const int64_t most = p.source_weights == p.kernel_taps ? kBrickChannels : 1;
  for (int64_t block = 0; block < p.source.blocks; ++block) {
    const int64_t first = block * p.source.unit;
    const int64_t here = std::min(p.source.unit, p.source.channels - first);
    for (int64_t c = 0; c < here; c += most) body(block, c, std::min(most, here - c));
  }
}

/// Calls body(tap of the kernel, tap of the product) for all taps of a block's channel 0.
template <class Body>
void each_tap(const DirectProduct& p, const Body& body) {
  for (int64_t h = 0; h < p.h.taps; ++h) {
    for (int64_t w = 0; w < p.w.taps; ++w) {
      body((p.h.first_tap + h * p.h.tap_step) * p.kernel_w + p.w.first_tap + w * p.w.tap_step,
           (h * p.w.taps + w) * p.source.unit);
    }
  }
}

}  // namespace

DirectLayout::DirectLayout(int64_t channel_count, Format format, int64_t rows, int64_t columns)
    : channels(channel_count),
      unit(format == Format::channels_last ? channel_count : block_of(format)),
      blocks((channel_count + unit - 1) / unit),
      h(rows),
      w(columns) {}

DirectProduct direct_forward(const ConvolutionProblem& p) {
  const int64_t taps = p.weights().count(2);
  return {.source = layout_of(p.source, p.source_format),
          .target = layout_of(p.target, p.target_format),
          .batch = p.source[0],
          .h = Axis(p, 0).forward(),
          .w = Axis(p, 1).forward(),
          .target_weights = p.source[1] * taps,
          .source_weights = taps,
          .kernel_w = of_axis(p.kernel, 1, 1),
          .kernel_taps = taps};
}

std::vector<DirectProduct> direct_backward(const ConvolutionProblem& p) {
  const Axis h(p, 0), w(p, 1);
  const int64_t taps = p.weights().count(2);
  std::vector<DirectProduct> products;
  for (int64_t i = 0; i < std::min(h.stride, h.source); ++i) {
    for (int64_t j = 0; j < std::min(w.stride, w.source); ++j) {
      products.push_back({.source = layout_of(p.target, p.target_format),
                          .target = layout_of(p.source, p.source_format),
                          .batch = p.source[0],
                          .h = h.backward(i),
                          .w = w.backward(j),
                          .target_weights = taps,
                          .source_weights = p.source[1] * taps,
                          .kernel_w = w.kernel,
                          .kernel_taps = taps});
      if (products.back().taps() == 0) products.pop_back();
    }
  }
  return products;
}

std::vector<DirectPanel> direct_panels(const DirectKernels& kernels, int64_t vectors) {
  int64_t most = DirectKernels::kMaxVectors;
  while (kernels.rows[most] == 0) --most;
  std::vector<DirectPanel> panels;
  for (int64_t first = 0; first < vectors;) {
    const int64_t left = vectors - first;
    // Rather two panels of middle width than a wide and a very narrow one.
    const int64_t take = left == most + 1 ? (left + 1) / 2 : std::min(left, most);
    panels.push_back({first, static_cast<int>(take)});
    first += take;
  }
  return panels;
}

int64_t direct_brick(const DirectProduct& product, int width) {
  return 2 * kBrickChannels * product.kernel_taps * width;
}

void pack_direct_weights(const DirectProduct& p, const DirectKernels& kernels,
                         const std::vector<DirectPanel>& panels, const float* weights, float* to) {
  const int width = kernels.width;
  each_vector(panels, width, p.taps(), to, [&](const PackedPlace& place, int64_t channel) {
    const int64_t lanes = std::min<int64_t>(width, p.target.channels - channel);
    float* const brick = convolution_scratch(ConvolutionScratch::brick, direct_brick(p, width));
    if (lanes < width) std::fill_n(brick, kBrickChannels * p.kernel_taps * width, 0.0F);
    each_brick(p, [&](int64_t block, int64_t c, int64_t count) {
      const float* const from =
          weights + channel * p.target_weights + (block * p.source.unit + c) * p.source_weights;
      transpose(from, p.target_weights, brick, width, lanes, count * p.kernel_taps);
      each_tap(p, [&](int64_t kernel_tap, int64_t tap) {
        float* row = place.to + (block * p.block_taps() + tap + c) * place.lanes;
        const float* column = brick + kernel_tap * width;
        for (int64_t i = 0; i < count; ++i) {
          std::copy_n(column, width, row);
          row += place.lanes;
          column += p.kernel_taps * width;
        }
      });
    });
    // Channels that fill the last block up.
    const int64_t missing = p.source.blocks * p.source.unit - p.source.channels;
    each_tap(p, [&](int64_t, int64_t tap) {
      const int64_t first = (p.source.blocks - 1) * p.block_taps() + tap + p.source.unit - missing;
      for (int64_t i = 0; i < missing; ++i)
        std::fill_n(place.to + (first + i) * place.lanes, width, 0.0F);
    });
  });
}

void unpack_direct_weights(const DirectProduct& p, const DirectKernels& kernels,
                           const std::vector<DirectPanel>& panels, const float* from, int64_t parts,
                           bool add, float* weights) {
  const int width = kernels.width;
  const int64_t vectors = panels.back().first + panels.back().vectors;
  const int64_t part = vectors * width * p.taps();
  each_vector(panels, width, p.taps(), const_cast<float*>(from),
              [&](const PackedPlace& place, int64_t channel) {
                const int64_t lanes = std::min<int64_t>(width, p.target.channels - channel);
                float* const brick =
                    convolution_scratch(ConvolutionScratch::brick, direct_brick(p, width));
                float* const turned = brick + direct_brick(p, width) / 2;
                each_brick(p, [&](int64_t block, int64_t c, int64_t count) {
                  each_tap(p, [&](int64_t kernel_tap, int64_t tap) {
                    const float* row = place.to + (block * p.block_taps() + tap + c) * place.lanes;
                    float* column = brick + kernel_tap * width;
                    for (int64_t i = 0; i < count; ++i) {
                      std::copy_n(row, width, column);
                      for (int64_t other = 1; other < parts; ++other) {
                        for (int lane = 0; lane < width; ++lane)
                          column[lane] += row[other * part + lane];
                      }
                      row += place.lanes;
                      column += p.kernel_taps * width;
                    }
                  });
                  const int64_t n = count * p.kernel_taps;
                  float* const to = weights + channel * p.target_weights +
                                    (block * p.source.unit + c) * p.source_weights;
                  if (!add) return transpose(brick, width, to, p.target_weights, n, lanes);
                  transpose(brick, width, turned, n, n, lanes);
                  for (int64_t lane = 0; lane < lanes; ++lane) {
                    for (int64_t i = 0; i < n; ++i)
                      to[lane * p.target_weights + i] += turned[lane * n + i];
                  }
                });
              });
}

DirectSplit direct_split(const DirectProduct& p, const std::vector<DirectPanel>& panels, int width,
                         int threads, int64_t most_rows) {
  const int64_t rows = p.batch * p.h.pixels, vectors = panels.back().first + panels.back().vectors;
  const double source = static_cast<double>(p.batch * p.source.image());
  const double weights = static_cast<double>(p.taps() * vectors * width);
  DirectSplit best;
  double best_work = 1, best_moved = source + weights;
  for (int64_t by_rows = 1; by_rows <= std::min<int64_t>({threads, rows, most_rows}); ++by_rows) {
    const int64_t by_panels = std::min<int64_t>(threads / by_rows, std::ssize(panels));
    const auto n = std::ssize(panels);
    double widest = 0;
    for (int64_t k = 0; k < by_panels; ++k) {
      const auto first = static_cast<size_t>(n * k / by_panels);
      const auto last = static_cast<size_t>(n * (k + 1) / by_panels - 1);
      widest = std::max(widest, static_cast<double>(panels[last].first + panels[last].vectors -
                                                    panels[first].first));
    }
    const double share = static_cast<double>((rows + by_rows - 1) / by_rows);
    const double work = share / static_cast<double>(rows) * widest / static_cast<double>(vectors);
    const double moved =
        source / static_cast<double>(by_rows) + weights / static_cast<double>(by_panels);
    if (work < 0.97 * best_work || (work < 1.03 * best_work && moved < best_moved)) {
      best = {by_rows, by_panels};
      best_work = work;
      best_moved = moved;
    }
  }
  return best;
}

DirectPlan::DirectPlan(const DirectProduct& what, const DirectKernels& used, int64_t band_pixels)
    : product(what),
      kernels(used),
      padded(what.h.leaves(what.source.h) || what.w.leaves(what.source.w)) {
  find_bands(band_pixels);
  find_runs();
  place_pixels();
}

void DirectPlan::find_bands(int64_t band_pixels) {
  const int64_t image_pixels = product.h.pixels * product.w.pixels;
  if (2 * image_pixels <= band_pixels) {
    band_images = std::min(product.batch, band_pixels / image_pixels);
    band_rows = product.h.pixels;
  } else {
    const int64_t bands = (image_pixels + band_pixels - 1) / band_pixels;
    band_rows = (product.h.pixels + bands - 1) / bands;
  }
  window_h_ = padded ? product.h.seen(band_rows) : product.source.h;
  window_w_ = padded ? product.w.seen(product.w.pixels) : product.source.w;
  // A fifth of the cache, beside weights and results.
  const int64_t seen = band_images * product.h.seen(band_rows) * window_row();
  const int64_t fit = second_level_cache_bytes() / 5 / (seen * static_cast<int64_t>(sizeof(float)));
  const int64_t blocks = product.source.blocks;
  const int64_t count = (blocks + std::max<int64_t>(fit, 1) - 1) / std::max<int64_t>(fit, 1);
  chunk_blocks = (blocks + count - 1) / count;
}

void DirectPlan::find_runs() {
  const int64_t unit = product.source.unit;
  // Columns of the kernel that lie side by side make one run.
  const int64_t joined = product.w.dilation == 1 ? product.w.taps : 1;
  run_length = joined * unit;
  for (int64_t block = 0; block < chunk_blocks; ++block) {
    for (int64_t h = 0; h < product.h.taps; ++h) {
      for (int64_t w = 0; w < product.w.taps; w += joined) {
        runs.push_back(block * window_block() + h * product.h.dilation * window_row() +
                       w * product.w.dilation * unit);
      }
    }
  }
}

void DirectPlan::place_pixels() {
  const DirectLayout& y = product.target;
  for (int64_t image = 0; image < band_images; ++image) {
    for (int64_t h = 0; h < band_rows; ++h) {
      row_at.push_back(image * window_image() + h * product.h.stride * window_row());
      for (int64_t w = 0; w < product.w.pixels; ++w) {
        source_at.push_back(row_at.back() + w * product.w.stride * product.source.unit);
        target_at.push_back(image * y.image() + h * product.h.step * y.row() +
                            w * product.w.step * y.unit);
      }
    }
  }
}

const float* DirectPlan::window_of(const DirectBand& band, int64_t chunk, const float* x) const {
  const DirectLayout& source = product.source;
  const int64_t first_row = band.row * product.h.stride + product.h.offset;
  const float* const from = x + band.image * source.image() + chunk * chunk_blocks * source.block();
  if (!padded) return from + first_row * source.row() + product.w.offset * source.unit;
  float* const to = convolution_scratch(ConvolutionScratch::window, window_count());
  const int64_t unit = source.unit, skip = std::max<int64_t>(product.w.offset, 0);
  const int64_t left = std::clamp<int64_t>(-product.w.offset, 0, window_w_);
  const int64_t middle = std::clamp<int64_t>(source.w - skip, 0, window_w_ - left);
  const int64_t right = window_w_ - left - middle;
  const int64_t rows = product.h.seen(band.rows);
  for (int64_t image = 0; image < band.images; ++image) {
    for (int64_t block = 0; block < blocks_of(chunk); ++block) {
      const float* const plane = from + image * source.image() + block * source.block();
      for (int64_t h = 0; h < rows; ++h) {
        float* const row = to + image * window_image() + block * window_block() + h * window_row();
        const int64_t from_row = first_row + h;
        if (from_row < 0 || from_row >= source.h) {
          std::fill_n(row, window_row(), 0.0F);
          continue;
        }
        std::fill_n(row, left * unit, 0.0F);
        std::copy_n(plane + from_row * source.row() + skip * unit, middle * unit,
                    row + left * unit);
        std::fill_n(row + (left + middle) * unit, right * unit, 0.0F);
      }
    }
  }
  return to;
}

}  // namespace crema
