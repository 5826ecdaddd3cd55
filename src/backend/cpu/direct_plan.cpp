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

/// A vector of columns in packed weights.
struct PackedVector {
  int64_t offset;   // of its first tap
  int64_t step;     // between its taps: the lanes of its panel
  int64_t channel;  // of the target, that its first lane is
};

/// Calls body(vector) for all vectors of columns.
template <class Body>
void each_vector(const std::vector<DirectPanel>& panels, int width, int64_t taps,
                 const Body& body) {
  const int64_t vectors = panels.back().first + panels.back().vectors;
  parallel_for(vectors, 1, [&](int64_t begin, int64_t end) {
    for (const DirectPanel& panel : panels) {
      for (int v = 0; v < panel.vectors; ++v) {
        const int64_t vector = panel.first + v;
        if (vector < begin || vector >= end) continue;
        body(PackedVector{panel.first * width * taps + int64_t{v} * width,
                          int64_t{panel.vectors} * width, vector * width});
      }
    }
  });
}

/// The most channels of the source whose weights are transposed together. Those of several channels
/// lie side by side where the kernel's taps are all that is between them.
int64_t brick_channels(const DirectProduct& p, int width) {
  constexpr int64_t kMostBytes = 64 << 10;
  if (p.source_weights != p.kernel_taps) return 1;
  const int64_t fit = kMostBytes / (p.kernel_taps * width * static_cast<int64_t>(sizeof(float)));
  return std::min({int64_t{16}, p.source.unit, std::max<int64_t>(fit, 1)});
}

/// Calls body(block, channel in the block, count) for bricks of the source's channels.
template <class Body>
void each_brick(const DirectProduct& p, int width, const Body& body) {
  const int64_t most = brick_channels(p, width);
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

namespace {

DirectLayout target_of(const ConvolutionProblem& p) {
  DirectLayout layout = layout_of(p.target, p.target_format);
  layout.next_image = p.target_image;
  return layout;
}

}  // namespace

DirectProduct direct_forward(const ConvolutionProblem& p) {
  const int64_t taps = p.weights().count(2);
  return {.source = layout_of(p.source, p.source_format),
          .target = target_of(p),
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
      products.push_back({.source = target_of(p),
                          .target = layout_of(p.source, p.source_format),
                          .batch = p.source[0],
                          .h = h.backward(i),
                          .w = w.backward(j),
                          .target_weights = taps,
                          .source_weights = p.source[1] * taps,
                          .kernel_w = w.kernel,
                          .kernel_taps = taps});
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
  return brick_channels(product, width) * product.kernel_taps * width;
}

void pack_direct_weights(const DirectProduct& p, const DirectKernels& kernels,
                         const std::vector<DirectPanel>& panels, const float* weights, float* to) {
  const int width = kernels.width;
  const int64_t brick_count = direct_brick(p, width);
  each_vector(panels, width, p.taps(), [&](const PackedVector& vector) {
    const int64_t lanes = std::min<int64_t>(width, p.target.channels - vector.channel);
    float* const packed = to + vector.offset;
    float* const brick = convolution_scratch(ConvolutionScratch::brick, brick_count);
    if (lanes < width) std::fill_n(brick, brick_count, 0.0F);
    each_brick(p, width, [&](int64_t block, int64_t c, int64_t count) {
      const float* const from = weights + vector.channel * p.target_weights +
                                (block * p.source.unit + c) * p.source_weights;
      transpose(from, p.target_weights, brick, width, lanes, count * p.kernel_taps);
      each_tap(p, [&](int64_t kernel_tap, int64_t tap) {
        float* row = packed + (block * p.block_taps() + tap + c) * vector.step;
        const float* column = brick + kernel_tap * width;
        for (int64_t i = 0; i < count; ++i) {
          std::copy_n(column, width, row);
          row += vector.step;
          column += p.kernel_taps * width;
        }
      });
    });
    // Channels that fill the last block up.
    const int64_t missing = p.source.blocks * p.source.unit - p.source.channels;
    each_tap(p, [&](int64_t, int64_t tap) {
      const int64_t first = (p.source.blocks - 1) * p.block_taps() + tap + p.source.unit - missing;
      for (int64_t i = 0; i < missing; ++i)
        std::fill_n(packed + (first + i) * vector.step, width, 0.0F);
    });
  });
}

void unpack_direct_weights(const DirectProduct& p, const DirectKernels& kernels,
                           const std::vector<DirectPanel>& panels, const float* from, int64_t parts,
                           bool add, float* weights) {
  const int width = kernels.width;
  const int64_t vectors = panels.back().first + panels.back().vectors;
  const int64_t part = vectors * width * p.taps(), brick_count = direct_brick(p, width);
  each_vector(panels, width, p.taps(), [&](const PackedVector& vector) {
    const int64_t lanes = std::min<int64_t>(width, p.target.channels - vector.channel);
    float* const brick = convolution_scratch(ConvolutionScratch::brick, 2 * brick_count);
    float* const turned = brick + brick_count;
    each_brick(p, width, [&](int64_t block, int64_t c, int64_t count) {
      each_tap(p, [&](int64_t kernel_tap, int64_t tap) {
        const float* row = from + vector.offset + (block * p.block_taps() + tap + c) * vector.step;
        float* column = brick + kernel_tap * width;
        for (int64_t i = 0; i < count; ++i) {
          std::copy_n(row, width, column);
          for (int64_t other = 1; other < parts; ++other) {
            for (int lane = 0; lane < width; ++lane) column[lane] += row[other * part + lane];
          }
          row += vector.step;
          column += p.kernel_taps * width;
        }
      });
      const int64_t n = count * p.kernel_taps;
      float* const to = weights + vector.channel * p.target_weights +
                        (block * p.source.unit + c) * p.source_weights;
      if (!add) return transpose(brick, width, to, p.target_weights, n, lanes);
      transpose(brick, width, turned, n, n, lanes);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        for (int64_t i = 0; i < n; ++i) to[lane * p.target_weights + i] += turned[lane * n + i];
      }
    });
  });
}

DirectSplit direct_split(const DirectProduct& p, const std::vector<DirectPanel>& panels, int width,
                         int threads, int64_t most_rows) {
  const int64_t rows = p.batch * p.h.pixels, vectors = panels.back().first + panels.back().vectors;
  const double source = static_cast<double>(p.batch * p.source.image());
  const double weights = static_cast<double>(p.taps() * vectors * width);
  struct Candidate {
    DirectSplit split;
    double work, moved;  // of the most loaded thread: its share, and what it reads
  };
  const auto judge = [&](int64_t by_rows) {
    const auto n = std::ssize(panels);
    const int64_t by_panels = std::min<int64_t>(threads / by_rows, n);
    int64_t widest = 0;
    for (int64_t k = 0; k < by_panels; ++k) {
      const DirectPanel& first = panels[static_cast<size_t>(n * k / by_panels)];
      const DirectPanel& last = panels[static_cast<size_t>(n * (k + 1) / by_panels - 1)];
      widest = std::max(widest, last.first + last.vectors - first.first);
    }
    const int64_t highest = (rows + by_rows - 1) / by_rows;
    return Candidate{
        {by_rows, by_panels},
        static_cast<double>(highest) * static_cast<double>(widest),
        source / static_cast<double>(by_rows) + weights / static_cast<double>(by_panels)};
  };
  const int64_t most = std::max<int64_t>(1, std::min<int64_t>({threads, rows, most_rows}));
  Candidate best = judge(1);
  double least = best.work;
  for (int64_t by_rows = 2; by_rows <= most; ++by_rows)
    least = std::min(least, judge(by_rows).work);
  constexpr double kEqual = 1.03;
  for (int64_t by_rows = 2; by_rows <= most; ++by_rows) {
    const Candidate other = judge(by_rows);
    if (other.work > kEqual * least) continue;
    if (best.work > kEqual * least || other.moved < best.moved) best = other;
  }
  return best.split;
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
  // Blocks share a fifth of the cache, beside weights and results. A single one may take half.
  const int64_t cache = second_level_cache_bytes();
  const auto block_bytes = [&] {
    return band_images * product.h.seen(band_rows) * window_row() *
           static_cast<int64_t>(sizeof(float));
  };
  while (2 * block_bytes() > cache && band_images > 1) band_images = (band_images + 1) / 2;
  while (2 * block_bytes() > cache && band_rows > 1) band_rows = (band_rows + 1) / 2;
  if (padded) window_h_ = product.h.seen(band_rows);
  const int64_t blocks = product.source.blocks;
  const int64_t fit = std::clamp<int64_t>(cache / 5 / block_bytes(), 1, blocks);
  const int64_t count = (blocks + fit - 1) / fit;
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
  const int64_t unit = source.unit, skip = std::clamp<int64_t>(product.w.offset, 0, source.w);
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
