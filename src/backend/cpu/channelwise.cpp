// Each pass is an operation with two loops: `row` over neighbouring elements of one channel, and
// `strip` over the pixels of Lanes neighbouring channels, whose coefficients and sums then stay in
// registers. run_piece() cuts a piece into rows or strips.
#include "backend/cpu/channelwise.hpp"

#include <algorithm>

#include "backend/cpu/simd.hpp"

namespace crema {
namespace {

/// Pixels that a strip takes at once in channels_last memory, where the next pixel's strip is far
/// away but the next strip is near.
constexpr int64_t kStripPixels = 16;
constexpr int64_t kWidestStrip = 16;
/// Elements of a row that are added up in f32 before they go to the double.
constexpr int64_t kFloatRun = 256;
/// Elements that are worth a thread.
constexpr int64_t kThreadElements = 16384;

template <class Op>
[[gnu::always_inline]] inline void pixel_strips(const Op& op, const ChannelLayout& layout,
                                                const ChannelPiece& piece) {
  for (int64_t p = piece.row_begin; p < piece.row_end; p += kStripPixels) {
    const int64_t pixels = std::min(kStripPixels, piece.row_end - p);
    const int64_t at = p * layout.channels;
    int64_t c = piece.channel_begin;
    for (; c + 16 <= piece.channel_end; c += 16) {
      op.template strip<16>(at + c, pixels, layout.channels, c);
    }
    for (; c + 8 <= piece.channel_end; c += 8) {
      op.template strip<8>(at + c, pixels, layout.channels, c);
    }
    for (; c < piece.channel_end; ++c) op.template strip<1>(at + c, pixels, layout.channels, c);
  }
}

template <int Block, class Op>
[[gnu::always_inline]] inline void block_strips(const Op& op, const ChannelLayout& layout,
                                                const ChannelPiece& piece) {
  const int64_t blocks = layout.padded_channels() / Block;
  for (int64_t c = piece.channel_begin; c < piece.channel_end; c += Block) {
    for (int64_t n = piece.row_begin; n < piece.row_end; ++n) {
      const int64_t at = (n * blocks + c / Block) * layout.inner * Block;
      op.template strip<Block>(at, layout.inner, Block, c);
    }
  }
}

template <class Op>
[[gnu::always_inline]] inline void run_piece(const Op& op, const ChannelLayout& layout,
                                             const ChannelPiece& piece) {
  if (layout.order == ChannelLayout::Order::pixels) {
    pixel_strips(op, layout, piece);
  } else if (layout.block == 8) {
    block_strips<8>(op, layout, piece);
  } else if (layout.block == 16) {
    block_strips<16>(op, layout, piece);
  } else {
    for (int64_t c = piece.channel_begin; c < piece.channel_end; ++c) {
      for (int64_t n = piece.row_begin; n < piece.row_end; ++n) {
        op.row((n * layout.channels + c) * layout.inner, layout.inner, c);
      }
    }
  }
}

/// The coefficients of a strip, out of the way of its stores; zeros where there are none.
template <int Lanes>
struct Lane {
  float value[Lanes];
  [[gnu::always_inline]] explicit Lane(const float* from, int64_t channel) {
    for (int j = 0; j < Lanes; ++j) value[j] = from ? from[channel + j] : 0.0F;
  }
  [[gnu::always_inline]] float operator[](int j) const { return value[j]; }
};

template <int Lanes, class T>
[[gnu::always_inline]] inline void add(const T* values, double* sums) {
#pragma omp simd
  for (int j = 0; j < Lanes; ++j) sums[j] += static_cast<double>(values[j]);
}

[[gnu::always_inline]] inline float value_or_0(const float* from, int64_t channel) {
  return from ? from[channel] : 0.0F;
}

struct Moments {
  const float* x;
  ChannelSums sums;

  [[gnu::always_inline]] void row(int64_t at, int64_t n, int64_t channel) const {
    const float* v = x + at;
    double first = 0, second = 0;
#pragma omp simd reduction(+ : first, second)
    for (int64_t i = 0; i < n; ++i) {
      const double value = v[i];
      first += value;
      second += value * value;
    }
    sums.first[channel] += first;
    sums.second[channel] += second;
  }

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t at, int64_t pixels, int64_t step,
                                    int64_t channel) const {
    double first[Lanes] = {}, second[Lanes] = {};
    for (int64_t p = 0; p < pixels; ++p) {
      const float* v = x + at + p * step;
#pragma omp simd
      for (int j = 0; j < Lanes; ++j) {
        const double value = v[j];
        first[j] += value;
        second[j] += value * value;
      }
    }
    add<Lanes>(first, sums.first + channel);
    add<Lanes>(second, sums.second + channel);
  }
};

template <bool Relu>
struct Affine {
  const float* x;
  const float* scale;
  const float* shift;
  float* y;

  [[gnu::always_inline]] static float value(float v, float a, float b) {
    const float z = v * a + b;
    return Relu && z < 0 ? 0.0F : z;  // NaN stays
  }

  [[gnu::always_inline]] void row(int64_t at, int64_t n, int64_t channel) const {
    const float a = scale[channel], b = value_or_0(shift, channel);
    const float* from = x + at;
    float* to = y + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = value(from[i], a, b);
  }

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t at, int64_t pixels, int64_t step,
                                    int64_t channel) const {
    const Lane<Lanes> a(scale, channel), b(shift, channel);
    for (int64_t p = 0; p < pixels; ++p) {
      const float* from = x + at + p * step;
      float* to = y + at + p * step;
#pragma omp simd
      for (int j = 0; j < Lanes; ++j) to[j] = value(from[j], a[j], b[j]);
    }
  }
};

/// dy, or 0 where ReLU held the value back.
template <bool Masked>
[[gnu::always_inline]] inline float passed(float dy, float x, float a, float b) {
  return !Masked || x * a + b > 0 ? dy : 0.0F;
}

template <bool Masked>
struct GradientSums {
  const float* x;
  const float* dy;
  const float* centre;
  ReluMask mask;
  ChannelSums sums;

  [[gnu::always_inline]] void row(int64_t at, int64_t n, int64_t channel) const {
    const float a = value_or_0(mask.scale, channel), b = value_or_0(mask.shift, channel);
    const float mid = value_or_0(centre, channel);
    const float* v = x + at;
    const float* d = dy + at;
    for (int64_t i = 0; i < n; i += kFloatRun) {
      const int64_t end = std::min(i + kFloatRun, n);
      float first = 0, second = 0;
#pragma omp simd reduction(+ : first, second)
      for (int64_t k = i; k < end; ++k) {
        const float g = passed<Masked>(d[k], v[k], a, b);
        first += g;
        second += g * (v[k] - mid);
      }
      sums.first[channel] += static_cast<double>(first);
      sums.second[channel] += static_cast<double>(second);
    }
  }

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t at, int64_t pixels, int64_t step,
                                    int64_t channel) const {
    const Lane<Lanes> a(mask.scale, channel), b(mask.shift, channel), mid(centre, channel);
    for (int64_t p = 0; p < pixels; p += kStripPixels) {
      const int64_t end = std::min(p + kStripPixels, pixels);
      float first[Lanes] = {}, second[Lanes] = {};
      for (int64_t k = p; k < end; ++k) {
        const float* v = x + at + k * step;
        const float* d = dy + at + k * step;
#pragma omp simd
        for (int j = 0; j < Lanes; ++j) {
          const float g = passed<Masked>(d[j], v[j], a[j], b[j]);
          first[j] += g;
          second[j] += g * (v[j] - mid[j]);
        }
      }
      add<Lanes>(first, sums.first + channel);
      add<Lanes>(second, sums.second + channel);
    }
  }
};

/// Reads x only where Masked or Centred.
template <bool Masked, bool Centred>
struct Gradient {
  const float* x;
  const float* dy;
  ChannelGradient c;
  ReluMask mask;
  float* dx;

  [[gnu::always_inline]] void row(int64_t at, int64_t n, int64_t channel) const {
    const float a = value_or_0(mask.scale, channel), b = value_or_0(mask.shift, channel);
    const float gain = c.gain[channel], mid = value_or_0(c.centre, channel);
    const float slope = value_or_0(c.slope, channel), offset = value_or_0(c.offset, channel);
    const float* v = Masked || Centred ? x + at : nullptr;
    const float* d = dy + at;
    float* to = dx + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float g = gain * passed<Masked>(d[i], Masked ? v[i] : 0.0F, a, b);
      to[i] = Centred ? g + ((v[i] - mid) * slope + offset) : g;
    }
  }

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t at, int64_t pixels, int64_t step,
                                    int64_t channel) const {
    const Lane<Lanes> a(mask.scale, channel), b(mask.shift, channel);
    const Lane<Lanes> gain(c.gain, channel), mid(c.centre, channel);
    const Lane<Lanes> slope(c.slope, channel), offset(c.offset, channel);
    for (int64_t p = 0; p < pixels; ++p) {
      const float* v = Masked || Centred ? x + at + p * step : nullptr;
      const float* d = dy + at + p * step;
      float* to = dx + at + p * step;
#pragma omp simd
      for (int j = 0; j < Lanes; ++j) {
        const float g = gain[j] * passed<Masked>(d[j], Masked ? v[j] : 0.0F, a[j], b[j]);
        to[j] = Centred ? g + ((v[j] - mid[j]) * slope[j] + offset[j]) : g;
      }
    }
  }
};

template <class Op>
void run(const Op& op, const ChannelLayout& layout, const ChannelPiece& piece) {
  vectorized<run_piece<Op>>(op, layout, piece);
}

}  // namespace

ChannelLayout ChannelLayout::of(const Shape& shape, Format format) {
  ChannelLayout layout =
      of(shape.dim_or_1(0), shape.dim_or_1(1), shape.rank() > 2 ? shape.count(2) : 1);
  if (format == Format::channels_last) layout.order = Order::pixels;
  layout.block = block_of(format);
  if (layout.block > 1) layout.order = Order::blocks;
  return layout;
}

ChannelLayout ChannelLayout::of(int64_t outer, int64_t channels, int64_t inner) {
  ChannelLayout layout;
  layout.outer = outer;
  layout.channels = channels;
  layout.inner = inner;
  // Rows of one element are pixels.
  layout.order = inner == 1 ? Order::pixels : Order::rows;
  return layout;
}

ChannelSplit::ChannelSplit(const ChannelLayout& layout, int threads) : layout_(layout) {
  const int64_t elements = layout.outer * layout.padded_channels() * layout.inner;
  const int64_t wanted = std::clamp<int64_t>(elements / kThreadElements, 1, threads);
  group_channels_ = layout.block;
  if (layout.order == ChannelLayout::Order::pixels) {
    // Neighbouring channels share cache lines: groups are as wide as they can be.
    group_channels_ = (layout.channels + wanted - 1) / wanted;
    group_channels_ = (group_channels_ + kWidestStrip - 1) / kWidestStrip * kWidestStrip;
  }
  group_channels_ = std::max<int64_t>(group_channels_, 1);
  const int64_t by_channel = (layout.padded_channels() + group_channels_ - 1) / group_channels_;
  const bool too_few_rows = rows() < wanted;
  const bool even = by_channel % wanted == 0 || by_channel >= 4 * wanted;
  if (too_few_rows || (even && layout.order != ChannelLayout::Order::pixels)) {
    groups_ = std::max<int64_t>(by_channel, 1);
    grain_ = (groups_ + wanted - 1) / wanted;
  } else {
    group_channels_ = layout.padded_channels();
    slices_ = wanted;
  }
}

int64_t ChannelSplit::rows() const {
  return layout_.order == ChannelLayout::Order::pixels ? layout_.outer * layout_.inner
                                                       : layout_.outer;
}

ChannelPiece ChannelSplit::group(int64_t index) const {
  return {index * group_channels_,
          std::min((index + 1) * group_channels_, layout_.padded_channels()), 0, rows()};
}

ChannelPiece ChannelSplit::slice(int64_t index) const {
  return {0, layout_.padded_channels(), rows() * index / slices_, rows() * (index + 1) / slices_};
}

void ChannelScratch::resize(const ChannelSplit& split) {
  channels_ = split.layout().padded_channels();
  sums_.assign(static_cast<size_t>(2 * channels_ * split.slices()), 0.0);
}

void channel_moments(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                     const ChannelSums& sums) {
  run(Moments{x, sums}, layout, piece);
}

void channel_affine(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                    const float* scale, const float* shift, bool relu, float* y) {
  if (relu) {
    run(Affine<true>{x, scale, shift, y}, layout, piece);
  } else {
    run(Affine<false>{x, scale, shift, y}, layout, piece);
  }
}

void channel_gradient_sums(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                           const float* dy, const float* centre, const ReluMask& mask,
                           const ChannelSums& sums) {
  if (mask.scale) {
    run(GradientSums<true>{x, dy, centre, mask, sums}, layout, piece);
  } else {
    run(GradientSums<false>{x, dy, centre, mask, sums}, layout, piece);
  }
}

void channel_gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                      const float* dy, const ChannelGradient& coefficients, const ReluMask& mask,
                      float* dx) {
  if (mask.scale && coefficients.centre) {
    run(Gradient<true, true>{x, dy, coefficients, mask, dx}, layout, piece);
  } else if (mask.scale) {
    run(Gradient<true, false>{x, dy, coefficients, mask, dx}, layout, piece);
  } else if (coefficients.centre) {
    run(Gradient<false, true>{x, dy, coefficients, mask, dx}, layout, piece);
  } else {
    run(Gradient<false, false>{x, dy, coefficients, mask, dx}, layout, piece);
  }
}

}  // namespace crema
