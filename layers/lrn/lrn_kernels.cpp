#include "layers/lrn/lrn_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "backend/cpu/simd.hpp"
#include "backend/cpu/vec.hpp"

namespace crema {
namespace {

/// Elements of a row that are taken through all channels at once.
constexpr int64_t kRun = 256;
/// Pixels whose blocks are read together: neighbours share cache lines.
constexpr int64_t kPixels = 8;

/// Room between two passes; each thread keeps its own.
float* room_of_thread(int64_t elements) {
  thread_local std::vector<float> room;
  if (room.size() < static_cast<size_t>(elements)) room.resize(static_cast<size_t>(elements));
  return room.data();
}

/// inverse^beta.
template <bool ThreeQuarters>
[[gnu::always_inline]] inline float power(float inverse, float beta) {
  if constexpr (!ThreeQuarters) return std::pow(inverse, beta);
  const float root = std::sqrt(inverse);
  return root * std::sqrt(root);
}

/// y = x / scale^beta.
template <bool ThreeQuarters>
[[gnu::always_inline]] inline void normalize(int64_t n, float beta, const float* scale,
                                             const float* x, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * power<ThreeQuarters>(1 / scale[i], beta);
}

/// direct = dy / scale^beta, ratio = direct * x / scale.
template <bool ThreeQuarters>
[[gnu::always_inline]] inline void split_gradient(int64_t n, float beta, const float* scale,
                                                  const float* x, const float* dy, float* direct,
                                                  float* ratio) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float inverse = 1 / scale[i];
    const float d = dy[i] * power<ThreeQuarters>(inverse, beta);
    direct[i] = d;
    ratio[i] = d * x[i] * inverse;
  }
}

/// out[i] = offset + weight * (sum of rows[r * step + i]^2), r in [0, count).
struct SquaresOfRows {
  const float* rows;
  int64_t count, step;
  float weight, offset;
  float* out;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t i) const {
    Vec<float, Lanes> sum = {};
    for (int64_t r = 0; r < count; ++r) {
      const float* v = rows + r * step + i;
      sum += lanes<Lanes>(v) * lanes<Lanes>(v);
    }
    lanes<Lanes>(out + i) = sum * weight + offset;
  }
};

/// dx[i] = direct[i] - factor * x[i] * (sum of rows[r * step + i]), r in [0, count).
struct SubtractRows {
  const float* rows;
  int64_t count, step;
  float factor;
  const float *direct, *x;
  float* dx;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t i) const {
    Vec<float, Lanes> sum = {};
    for (int64_t r = 0; r < count; ++r) sum += lanes<Lanes>(rows + r * step + i);
    lanes<Lanes>(dx + i) = lanes<Lanes>(direct + i) - sum * factor * lanes<Lanes>(x + i);
  }
};

/// The rows around c: those from `first` on, `count` of them.
struct Span {
  int64_t first, count;
};
[[gnu::always_inline]] inline Span around(int64_t c, int64_t reach, int64_t size) {
  const int64_t first = std::max<int64_t>(c - reach, 0);
  return {first, std::min(c + reach + 1, size) - first};
}

// --- (channels, inner)
// ----------------------------------------------------------------------------

template <bool ThreeQuarters>
struct Rows {
  template <int Width>
  [[gnu::always_inline]] static void run(const LRNCoefficients* k, int64_t channels, int64_t inner,
                                         int64_t begin, int64_t end, const float* x, float* y) {
    float scale[kRun];
    for (int64_t at = begin; at < end; at += kRun) {
      const int64_t n = std::min(kRun, end - at);
      for (int64_t c = 0; c < channels; ++c) {
        const Span span = around(c, k->reach, channels);
        cover_once<Width>(n, SquaresOfRows{x + span.first * inner + at, span.count, inner,
                                           k->weight, k->k, scale});
        normalize<ThreeQuarters>(n, k->beta, scale, x + c * inner + at, y + c * inner + at);
      }
    }
  }
};

template <bool ThreeQuarters>
struct RowsGradient {
  template <int Width>
  [[gnu::always_inline]] static void run(const LRNCoefficients* k, int64_t channels, int64_t inner,
                                         int64_t begin, int64_t end, const float* x,
                                         const float* dy, float* dx, float* ratios) {
    float scale[kRun];
    const float factor = 2 * k->weight * k->beta;
    for (int64_t at = begin; at < end; at += kRun) {
      const int64_t n = std::min(kRun, end - at);
      for (int64_t c = 0; c < channels + k->reach; ++c) {
        if (c < channels) {
          const Span span = around(c, k->reach, channels);
          const int64_t row = c * inner + at;
          cover_once<Width>(n, SquaresOfRows{x + span.first * inner + at, span.count, inner,
                                             k->weight, k->k, scale});
          split_gradient<ThreeQuarters>(n, k->beta, scale, x + row, dy + row, dx + row,
                                        ratios + c * kRun);
        }
        // By now the last neighbour of this channel has its ratio.
        const int64_t ready = c - k->reach;
        if (ready < 0) continue;
        const Span span = around(ready, k->reach, channels);
        const int64_t row = ready * inner + at;
        cover_once<Width>(n, SubtractRows{ratios + span.first * kRun, span.count, kRun, factor,
                                          dx + row, x + row, dx + row});
      }
    }
  }
};

// --- (blocks, inner, block)
// -----------------------------------------------------------------------

// A pixel's channels are copied to a row with `reach` zeros on both ends, so that its neighbours
// are shifted rows.

struct Copy {
  const float* from;
  float* to;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t i) const {
    lanes<Lanes>(to + i) = lanes<Lanes>(from + i);
  }
};

/// Where the channels of some pixels are: block b of pixel p at memory + b * block_step + p *
/// block, in rows at rows + p * row_step + b * block.
template <int Block>
struct PixelCopy {
  int64_t blocks, channels_of_block, block_step, row_step;

  template <int Width>
  [[gnu::always_inline]] void load(int64_t pixels, const float* memory, float* rows) const {
    each(
        pixels, [&](int64_t at, int64_t row) __attribute__((always_inline)) {
          cover_once<Width>(size(), Copy{memory + at, rows + row});
        });
  }
  template <int Width>
  [[gnu::always_inline]] void store(int64_t pixels, const float* rows, float* memory) const {
    each(
        pixels, [&](int64_t at, int64_t row) __attribute__((always_inline)) {
          cover_once<Width>(size(), Copy{rows + row, memory + at});
        });
  }

 private:
  [[gnu::always_inline]] int64_t size() const { return Block > 0 ? Block : channels_of_block; }

  template <class Body>
  [[gnu::always_inline]] void each(int64_t pixels, const Body& body) const {
    const int64_t block = size();
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t p = 0; p < pixels; ++p)
        body(b * block_step + p * block, p * row_step + b * block);
    }
  }
};

template <bool ThreeQuarters, int Block>
struct Pixels {
  template <int Width>
  [[gnu::always_inline]] static void run(const LRNCoefficients* k, int64_t blocks, int64_t block,
                                         int64_t inner, int64_t begin, int64_t end, const float* x,
                                         float* y, float* room) {
    const int64_t channels = blocks * block, step = channels + 2 * k->reach;
    const PixelCopy<Block> copy{blocks, block, inner * block, step};
    float* rows = room;                    // (kPixels, step)
    float* scale = rows + kPixels * step;  // (channels)
    std::fill_n(rows, kPixels * step, 0.0F);
    for (int64_t p = begin; p < end; p += kPixels) {
      const int64_t pixels = std::min(kPixels, end - p);
      copy.template load<Width>(pixels, x + p * block, rows + k->reach);
      for (int64_t i = 0; i < pixels; ++i) {
        float* row = rows + i * step;
        cover_once<Width>(channels,
                          SquaresOfRows{row, 2 * k->reach + 1, 1, k->weight, k->k, scale});
        normalize<ThreeQuarters>(channels, k->beta, scale, row + k->reach, row + k->reach);
      }
      copy.template store<Width>(pixels, rows + k->reach, y + p * block);
    }
  }
};

template <bool ThreeQuarters, int Block>
struct PixelsGradient {
  template <int Width>
  [[gnu::always_inline]] static void run(const LRNCoefficients* k, int64_t blocks, int64_t block,
                                         int64_t inner, int64_t begin, int64_t end, const float* x,
                                         const float* dy, float* dx, float* room) {
    const int64_t channels = blocks * block, step = channels + 2 * k->reach;
    const float factor = 2 * k->weight * k->beta;
    const PixelCopy<Block> copy{blocks, block, inner * block, step};
    float* rows = room;                       // (kPixels, step)
    float* d_rows = rows + kPixels * step;    // (kPixels, step)
    float* ratios = d_rows + kPixels * step;  // (step)
    float* scale = ratios + step;             // (channels)
    std::fill(room, scale, 0.0F);
    for (int64_t p = begin; p < end; p += kPixels) {
      const int64_t pixels = std::min(kPixels, end - p);
      copy.template load<Width>(pixels, x + p * block, rows + k->reach);
      copy.template load<Width>(pixels, dy + p * block, d_rows);
      for (int64_t i = 0; i < pixels; ++i) {
        const float* row = rows + i * step;
        float* d = d_rows + i * step;
        cover_once<Width>(channels,
                          SquaresOfRows{row, 2 * k->reach + 1, 1, k->weight, k->k, scale});
        split_gradient<ThreeQuarters>(channels, k->beta, scale, row + k->reach, d, d,
                                      ratios + k->reach);
        cover_once<Width>(channels,
                          SubtractRows{ratios, 2 * k->reach + 1, 1, factor, d, row + k->reach, d});
      }
      copy.template store<Width>(pixels, d_rows, dx + p * block);
    }
  }
};

// --- One plane
// ------------------------------------------------------------------------------------

/// sums[v][u] = sum of in[v'][u'] (squared) over the neighbourhood; `along` is as large as the
/// plane.
template <bool Squared>
[[gnu::always_inline]] inline void box_sums(int64_t reach, int64_t height, int64_t width,
                                            const float* in, float* along, float* sums) {
  std::fill_n(along, height * width, 0.0F);
  std::fill_n(sums, height * width, 0.0F);
  for (int64_t v = 0; v < height; ++v) {
    const float* from = in + v * width;
    float* to = along + v * width;
    for (int64_t shift = -reach; shift <= reach; ++shift) {
      const int64_t first = std::max<int64_t>(-shift, 0), last = std::min(width - shift, width);
#pragma omp simd
      for (int64_t u = first; u < last; ++u) {
        to[u] += Squared ? from[u + shift] * from[u + shift] : from[u + shift];
      }
    }
  }
  for (int64_t v = 0; v < height; ++v) {
    const Span span = around(v, reach, height);
    float* to = sums + v * width;
    for (int64_t r = span.first; r < span.first + span.count; ++r) {
#pragma omp simd
      for (int64_t u = 0; u < width; ++u) to[u] += along[r * width + u];
    }
  }
}

[[gnu::always_inline]] inline void plane_scale(const LRNCoefficients* k, int64_t height,
                                               int64_t width, const float* x, float* along,
                                               float* scale) {
  box_sums<true>(k->reach, height, width, x, along, scale);
#pragma omp simd
  for (int64_t i = 0; i < height * width; ++i) scale[i] = scale[i] * k->weight + k->k;
}

template <bool ThreeQuarters>
[[gnu::always_inline]] inline void plane(const LRNCoefficients* k, int64_t height, int64_t width,
                                         const float* x, float* y, float* room) {
  float* scale = room + height * width;
  plane_scale(k, height, width, x, room, scale);
  normalize<ThreeQuarters>(height * width, k->beta, scale, x, y);
}

template <bool ThreeQuarters>
[[gnu::always_inline]] inline void plane_gradient(const LRNCoefficients* k, int64_t height,
                                                  int64_t width, const float* x, const float* dy,
                                                  float* dx, float* room) {
  const int64_t n = height * width;
  const float factor = 2 * k->weight * k->beta;
  float *along = room, *scale = room + n, *ratios = room + 2 * n;
  plane_scale(k, height, width, x, along, scale);
  split_gradient<ThreeQuarters>(n, k->beta, scale, x, dy, dx, ratios);
  float* sums = scale;  // not needed any more
  box_sums<false>(k->reach, height, width, ratios, along, sums);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] -= factor * x[i] * sums[i];
}

bool is_three_quarters(const LRNCoefficients& c) { return c.beta == 0.75F; }

/// Calls body(beta is 3/4, block or 0) with what kernels are compiled for.
template <class Body>
void with_constants(const LRNCoefficients& c, int64_t block, const Body& body) {
  auto with_beta = [&](auto size) {
    if (is_three_quarters(c)) {
      body(std::true_type{}, size);
    } else {
      body(std::false_type{}, size);
    }
  };
  if (block == 8) {
    with_beta(std::integral_constant<int, 8>{});
  } else if (block == 16) {
    with_beta(std::integral_constant<int, 16>{});
  } else {
    with_beta(std::integral_constant<int, 0>{});
  }
}

}  // namespace

void lrn_rows(const LRNCoefficients& c, int64_t channels, int64_t inner, int64_t begin, int64_t end,
              const float* x, float* y) {
  if (is_three_quarters(c)) {
    vectorized_by_width<Rows<true>>(&c, channels, inner, begin, end, x, y);
  } else {
    vectorized_by_width<Rows<false>>(&c, channels, inner, begin, end, x, y);
  }
}

void lrn_rows_gradient(const LRNCoefficients& c, int64_t channels, int64_t inner, int64_t begin,
                       int64_t end, const float* x, const float* dy, float* dx) {
  float* room = room_of_thread(channels * kRun);
  if (is_three_quarters(c)) {
    vectorized_by_width<RowsGradient<true>>(&c, channels, inner, begin, end, x, dy, dx, room);
  } else {
    vectorized_by_width<RowsGradient<false>>(&c, channels, inner, begin, end, x, dy, dx, room);
  }
}

void lrn_pixels(const LRNCoefficients& c, int64_t blocks, int64_t block, int64_t inner,
                int64_t begin, int64_t end, const float* x, float* y) {
  const int64_t step = blocks * block + 2 * c.reach;
  float* room = room_of_thread((kPixels + 1) * step);
  with_constants(c, block, [&](auto three_quarters, auto size) {
    vectorized_by_width<Pixels<three_quarters, size>>(&c, blocks, block, inner, begin, end, x, y,
                                                      room);
  });
}

void lrn_pixels_gradient(const LRNCoefficients& c, int64_t blocks, int64_t block, int64_t inner,
                         int64_t begin, int64_t end, const float* x, const float* dy, float* dx) {
  const int64_t step = blocks * block + 2 * c.reach;
  float* room = room_of_thread((2 * kPixels + 2) * step);
  with_constants(c, block, [&](auto three_quarters, auto size) {
    vectorized_by_width<PixelsGradient<three_quarters, size>>(&c, blocks, block, inner, begin, end,
                                                              x, dy, dx, room);
  });
}

void lrn_plane(const LRNCoefficients& c, int64_t height, int64_t width, const float* x, float* y) {
  float* room = room_of_thread(2 * height * width);
  if (is_three_quarters(c)) {
    vectorized<plane<true>>(&c, height, width, x, y, room);
  } else {
    vectorized<plane<false>>(&c, height, width, x, y, room);
  }
}

void lrn_plane_gradient(const LRNCoefficients& c, int64_t height, int64_t width, const float* x,
                        const float* dy, float* dx) {
  float* room = room_of_thread(3 * height * width);
  if (is_three_quarters(c)) {
    vectorized<plane_gradient<true>>(&c, height, width, x, dy, dx, room);
  } else {
    vectorized<plane_gradient<false>>(&c, height, width, x, dy, dx, room);
  }
}

}  // namespace crema
