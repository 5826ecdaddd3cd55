// Passes over a tensor whose channels each have coefficients of their own: what BatchNorm, Scale,
// Bias and PReLU are made of. f32, every memory format, by Highway. Sums are added up in double.
//
// Memory is what such passes wait for. So the channels are cut into groups that one thread takes
// through all passes, while the group is in its cache; only where there are too few groups for the
// threads is a group cut again, along samples or pixels, into slices (see channel_passes).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// How channels lie in memory.
struct ChannelLayout {
  enum class Order : uint8_t {
    rows,    // (outer, channels, inner): contiguous
    blocks,  // (outer, channels / block, inner, block): blocked8, blocked16
    pixels,  // (outer * inner, channels): channels_last
  };
  Order order = Order::rows;
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t block = 1;

  /// Channels are axis 1 of `shape`.
  static ChannelLayout of(const Shape& shape, Format format);
  /// Of contiguous memory, (outer, channels, inner).
  static ChannelLayout of(int64_t outer, int64_t channels, int64_t inner);
  /// All elements as one channel, in rows that threads share.
  static ChannelLayout of_one(int64_t elements);

  /// Channels with those that pad the last block. Coefficients of the latter must be 0.
  int64_t padded_channels() const { return (channels + block - 1) / block * block; }
};

/// Channels [channel_begin, channel_end) of rows [row_begin, row_end), where a row is a sample
/// (rows, blocks) or a pixel (pixels). Blocks are never cut.
struct ChannelPiece {
  int64_t channel_begin = 0, channel_end = 0;
  int64_t row_begin = 0, row_end = 0;
};

/// How the passes over one tensor are shared out among threads. Depends on the layout and the
/// number of threads alone, so sums are reproducible.
class ChannelSplit {
 public:
  ChannelSplit() = default;
  ChannelSplit(const ChannelLayout& layout, int threads);

  const ChannelLayout& layout() const { return layout_; }
  /// Parts by channels: what one of them needs, no other makes.
  int64_t groups() const { return groups_; }
  /// Parts by rows; more than 1 only where groups() is 1.
  int64_t slices() const { return slices_; }
  /// Channels of one group, padding counted.
  int64_t group_channels() const { return group_channels_; }
  /// Groups or slices that a thread should take at least.
  int64_t grain() const { return grain_; }
  ChannelPiece group(int64_t index) const;
  ChannelPiece slice(int64_t index) const;

 private:
  int64_t rows() const;

  ChannelLayout layout_;
  int64_t groups_ = 1, slices_ = 1, grain_ = 1;
  int64_t group_channels_ = 1;
};

/// Two sums a channel: arrays of padded_channels().
struct ChannelSums {
  double* first = nullptr;
  double* second = nullptr;
};

/// Memory for channel_passes.
class ChannelScratch {
 public:
  /// Zeroed sums of all channels for each slice.
  void resize(const ChannelSplit& split);
  ChannelSums slice(int64_t index) {
    double* first = sums_.data() + index * 2 * channels_;
    return {first, first + channels_};
  }
  size_t bytes() const { return sums_.size() * sizeof(double); }

 private:
  std::vector<double> sums_;
  int64_t channels_ = 0;
};

/// Runs, for each channel, reduce(piece, sums) over all of its rows; then, once,
/// finish(channel_begin, channel_end, sums).
template <class Reduce, class Finish>
void channel_reduce(const ChannelSplit& split, ChannelScratch& scratch, const Reduce& reduce,
                    const Finish& finish) {
  const int64_t channels = split.layout().channels;
  auto clear = [](const ChannelSums& sums, const ChannelPiece& piece) {
    std::fill(sums.first + piece.channel_begin, sums.first + piece.channel_end, 0.0);
    std::fill(sums.second + piece.channel_begin, sums.second + piece.channel_end, 0.0);
  };
  const ChannelSums sums = scratch.slice(0);
  if (split.slices() == 1) {
    parallel_for(split.groups(), split.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const ChannelPiece piece = split.group(g);
        clear(sums, piece);
        reduce(piece, sums);
        finish(piece.channel_begin, std::min(piece.channel_end, channels), sums);
      }
    });
    return;
  }
  parallel_for(split.slices(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const ChannelPiece piece = split.slice(s);
      clear(scratch.slice(s), piece);
      reduce(piece, scratch.slice(s));
    }
  });
  for (int64_t s = 1; s < split.slices(); ++s) {
    const ChannelSums part = scratch.slice(s);
    for (int64_t c = 0; c < channels; ++c) {
      sums.first[c] += part.first[c];
      sums.second[c] += part.second[c];
    }
  }
  finish(0, channels, sums);
}

/// Runs apply(piece) over all of the tensor.
template <class Apply>
void channel_apply(const ChannelSplit& split, const Apply& apply) {
  const bool by_rows = split.slices() > 1;
  parallel_for(by_rows ? split.slices() : split.groups(), split.grain(),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   apply(by_rows ? split.slice(i) : split.group(i));
                 }
               });
}

/// channel_reduce, then channel_apply; each group goes through both while it is in the cache.
template <class Reduce, class Finish, class Apply>
void channel_passes(const ChannelSplit& split, ChannelScratch& scratch, const Reduce& reduce,
                    const Finish& finish, const Apply& apply) {
  if (split.slices() > 1) {
    channel_reduce(split, scratch, reduce, finish);
    channel_apply(split, apply);
    return;
  }
  // A group is whole channels, so all that apply needs of its sums is there.
  channel_reduce(split, scratch, reduce, [&](int64_t begin, int64_t end, const ChannelSums& sums) {
    finish(begin, end, sums);
    apply(split.group(begin / split.group_channels()));
  });
}

// The passes. x, y, dx and dy start where the tensor starts; coefficients are arrays of
// padded_channels(). Output may lie where any input lies.

/// origin[c] = the first value of each channel, which is near the others compared with 0.
void channel_origins(const ChannelLayout& layout, const float* x, float* origin);

/// Adds {sum of x - origin, sum of (x - origin)^2} to `sums`. With an origin among the values,
/// their variance is not lost in the difference of two large numbers.
void channel_moments(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                     const float* origin, const ChannelSums& sums);

struct ChannelMoments {
  double mean = 0, variance = 0;
};
/// From the sums of channel_moments() over `count` values.
inline ChannelMoments moments_of(const ChannelSums& sums, int64_t c, double count, float origin) {
  const double from_origin = sums.first[c] / count;
  const double variance = sums.second[c] / count - from_origin * from_origin;
  return {static_cast<double>(origin) + from_origin, std::max(variance, 0.0)};
}

/// y = (x - centre) * scale + shift + add, then, with `relu`, negative values become 0 and NaN
/// stays.
struct AffineCoefficients {
  const float* scale = nullptr;
  const float* centre = nullptr;  // null: 0
  const float* shift = nullptr;   // null: 0
  bool relu = false;
  const float* add = nullptr;  // null: 0; no coefficient, but a tensor like x
};
void channel_affine(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                    const AffineCoefficients& affine, float* y);
/// The coefficients of y = (x - mean) * gain + bias. What rounding takes from the mean comes back
/// by the shift.
inline void set_affine(double mean, double gain, double bias, float& scale, float& centre,
                       float& shift) {
  scale = static_cast<float>(gain);
  centre = static_cast<float>(mean);
  shift = static_cast<float>(bias + (static_cast<double>(centre) - mean) * gain);
}

/// Which of dy counts: all of it, or, where the forward pass ended in ReLU, what ReLU let through.
struct ReluMask {
  /// With its `relu`: dy counts where the value that went into ReLU, computed again from x, is
  /// positive. Its `add` must be null.
  AffineCoefficients forward = {};
  /// If not null, dy counts where the result of the forward pass is positive, whatever `forward`
  /// is.
  const float* y = nullptr;
  /// With y: dy, or 0 where it does not count, is written here. May be dy itself. Null: it is not.
  float* passed = nullptr;
};

/// Adds {sum of dy, sum of dy * (x - centre)} to `sums`; centre may be null: 0.
void channel_gradient_sums(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                           const float* dy, const float* centre, const ReluMask& mask,
                           const ChannelSums& sums);

/// dx = dy * gain + (x - centre) * slope + offset.
struct ChannelGradient {
  const float* gain = nullptr;
  const float* centre = nullptr;  // null: dx = dy * gain
  const float* slope = nullptr;
  const float* offset = nullptr;
};
/// x may be null if there is neither `centre` nor a ReLU whose sign is computed again.
void channel_gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                      const float* dy, const ChannelGradient& coefficients, const ReluMask& mask,
                      float* dx);

/// y = x where x is positive or NaN, slope * x elsewhere.
void channel_slope(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                   const float* slope, float* y);

/// dx = dy where x is positive, slope * dy elsewhere; dx may be null. Adds {sum of dy * x where x
/// is not positive, 0} to `sums`.
void channel_slope_gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                            const float* dy, const float* slope, const ChannelSums& sums,
                            float* dx);

}  // namespace crema
