#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/lrn/lrn_kernels.cpp"
#include "layers/lrn/lrn_kernels.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

constexpr int64_t kRun = kLRNRun, kPixels = kLRNPixels;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D kFloats;

/// Room between two passes; each thread keeps its own.
float* room_of_thread(int64_t elements) {
  thread_local std::vector<float> room;
  if (room.size() < static_cast<size_t>(elements)) room.resize(static_cast<size_t>(elements));
  return room.data();
}

/// Sum of `count` vectors that lie `step` apart.
template <class Lanes>
HWY_INLINE V sum_of(Lanes lanes, const float* from, int64_t count, int64_t step) {
  V sum = hn::Zero(kFloats);
  for (int64_t r = 0; r < count; ++r) sum = hn::Add(sum, load(kFloats, lanes, from + r * step));
  return sum;
}
template <class Lanes>
HWY_INLINE V squares_of(Lanes lanes, const float* from, int64_t count, int64_t step) {
  V sum = hn::Zero(kFloats);
  for (int64_t r = 0; r < count; ++r) {
    const V v = load(kFloats, lanes, from + r * step);
    sum = hn::MulAdd(v, v, sum);
  }
  return sum;
}

/// The formulas for the sums of one vector of elements.
template <bool ThreeQuarters>
struct Norm {
  explicit HWY_INLINE Norm(const LRNCoefficients& c)
      : weight(hn::Set(kFloats, c.weight)),
        k(hn::Set(kFloats, c.k)),
        beta(hn::Set(kFloats, c.beta)),
        factor(hn::Set(kFloats, 2 * c.weight * c.beta)) {}

  HWY_INLINE V inverse_scale(V squares) const {
    return hn::Div(hn::Set(kFloats, 1.0F), hn::MulAdd(squares, weight, k));
  }
  /// inverse^beta.
  HWY_INLINE V power(V inverse) const {
    const V root = hn::Sqrt(inverse);
    if (ThreeQuarters) return hn::Mul(root, hn::Sqrt(root));
    // The root gives what the logarithm does not: 0, infinity and NaN.
    const V infinity = hn::Set(kFloats, std::numeric_limits<float>::infinity());
    const auto ordinary = hn::And(hn::Gt(inverse, hn::Zero(kFloats)), hn::Lt(inverse, infinity));
    const V general = hn::Exp(kFloats, hn::Mul(beta, hn::Log(kFloats, inverse)));
    return hn::IfThenElse(ordinary, general, root);
  }
  HWY_INLINE V forward(V squares, V x) const { return hn::Mul(x, power(inverse_scale(squares))); }
  /// direct = dy / scale^beta, ratio = direct * x / scale.
  HWY_INLINE void split(V squares, V x, V dy, V& direct, V& ratio) const {
    const V inverse = inverse_scale(squares);
    direct = hn::Mul(dy, power(inverse));
    ratio = hn::Mul(hn::Mul(direct, x), inverse);
  }
  HWY_INLINE V gradient(V ratios, V x, V direct) const {
    return hn::NegMulAdd(hn::Mul(ratios, factor), x, direct);
  }

  V weight, k, beta, factor;
};

/// Calls body(Norm) with the power that the coefficients need.
template <class Body>
HWY_INLINE void with_norm(const LRNCoefficients& c, const Body& body) {
  if (c.beta == 0.75F) {
    body(Norm<true>(c));
  } else {
    body(Norm<false>(c));
  }
}

/// The rows around c: those from `first` on, `count` of them.
struct Span {
  int64_t first, count;
};
HWY_INLINE Span around(int64_t c, int64_t reach, int64_t size) {
  const int64_t first = std::max<int64_t>(c - reach, 0);
  return {first, std::min(c + reach + 1, size) - first};
}

// --- (channels, inner) ---------------------------------------------------------------------------

void rows(const LRNCoefficients& k, int64_t channels, int64_t inner, int64_t begin, int64_t end,
          const float* x, float* y) {
  with_norm(k, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t at = begin; at < end; at += kRun) {
      for (int64_t c = 0; c < channels; ++c) {
        const Span span = around(c, k.reach, channels);
        const float* const first = x + span.first * inner + at;
        const int64_t row = c * inner + at;
        each_vector(kFloats, std::min(kRun, end - at),
                    [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
                      const V squares = squares_of(lanes, first + i, span.count, inner);
                      const V own = load(kFloats, lanes, x + row + i);
                      store(kFloats, lanes, norm.forward(squares, own), y + row + i);
                    });
      }
    }
  });
}

void rows_gradient(const LRNCoefficients& k, int64_t channels, int64_t inner, int64_t begin,
                   int64_t end, const float* x, const float* dy, float* dx) {
  float* const ratios = room_of_thread(lrn_rows_scratch(channels, true));  // (channels, kRun)
  with_norm(k, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t at = begin; at < end; at += kRun) {
      const int64_t n = std::min(kRun, end - at);
      for (int64_t c = 0; c < channels + k.reach; ++c) {
        if (c < channels) {
          const Span span = around(c, k.reach, channels);
          const float* const first = x + span.first * inner + at;
          const int64_t row = c * inner + at;
          each_vector(kFloats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
            V direct, ratio;
            norm.split(squares_of(lanes, first + i, span.count, inner),
                       load(kFloats, lanes, x + row + i), load(kFloats, lanes, dy + row + i),
                       direct, ratio);
            store(kFloats, lanes, direct, dx + row + i);
            store(kFloats, lanes, ratio, ratios + c * kRun + i);
          });
        }
        // By now the last neighbour of this channel has its ratio.
        const int64_t ready = c - k.reach;
        if (ready < 0) continue;
        const Span span = around(ready, k.reach, channels);
        const float* const first = ratios + span.first * kRun;
        const int64_t row = ready * inner + at;
        each_vector(kFloats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          const V direct = load(kFloats, lanes, dx + row + i);
          const V own = load(kFloats, lanes, x + row + i);
          store(kFloats, lanes,
                norm.gradient(sum_of(lanes, first + i, span.count, kRun), own, direct),
                dx + row + i);
        });
      }
    }
  });
}

// --- (blocks, inner, block) ----------------------------------------------------------------------

// A pixel's channels are copied to a row with `reach` zeros on both ends, so that its neighbours
// are shifted rows.

/// Copies the channels of some pixels: block b of pixel p from from + b * from_block + p *
/// from_pixel; likewise to.
HWY_INLINE void copy_pixels(int64_t blocks, int64_t block, int64_t pixels, const float* from,
                            int64_t from_block, int64_t from_pixel, float* to, int64_t to_block,
                            int64_t to_pixel) {
  auto copy = [&](auto d) CREMA_LANES_LAMBDA {
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t p = 0; p < pixels; ++p) {
        const float* const source = from + b * from_block + p * from_pixel;
        float* const target = to + b * to_block + p * to_pixel;
        each_vector(d, block, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          store(d, lanes, load(d, lanes, source + i), target + i);
        });
      }
    }
  };
  // A store of some lanes keeps what reads them next waiting.
  if (block == 8) {
    copy(hn::CappedTag<float, 8>());
  } else {
    copy(kFloats);
  }
}

void pixels(const LRNCoefficients& k, int64_t blocks, int64_t block, int64_t inner, int64_t begin,
            int64_t end, const float* x, float* y) {
  const int64_t channels = blocks * block, step = channels + 2 * k.reach;
  const int64_t far = inner * block;
  float* const rows =
      room_of_thread(lrn_pixels_scratch(k.reach, channels, false));  // (kPixels, step)
  float* const results = rows + kPixels * step;                      // (kPixels, step)
  std::fill_n(rows, kPixels * step, 0.0F);
  with_norm(k, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t p = begin; p < end; p += kPixels) {
      const int64_t count = std::min(kPixels, end - p);
      copy_pixels(blocks, block, count, x + p * block, far, block, rows + k.reach, block, step);
      for (int64_t r = 0; r < count; ++r) {
        const float* const row = rows + r * step;
        each_vector(kFloats, channels, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          const V squares = squares_of(lanes, row + i, 2 * k.reach + 1, 1);
          const V own = load(kFloats, lanes, row + k.reach + i);
          store(kFloats, lanes, norm.forward(squares, own), results + r * step + i);
        });
      }
      copy_pixels(blocks, block, count, results, block, step, y + p * block, far, block);
    }
  });
}

void pixels_gradient(const LRNCoefficients& k, int64_t blocks, int64_t block, int64_t inner,
                     int64_t begin, int64_t end, const float* x, const float* dy, float* dx) {
  const int64_t channels = blocks * block, step = channels + 2 * k.reach;
  const int64_t far = inner * block;
  float* const rows =
      room_of_thread(lrn_pixels_scratch(k.reach, channels, true));  // (kPixels, step)
  float* const d_rows = rows + kPixels * step;                      // (kPixels, step)
  float* const ratios = d_rows + kPixels * step;                    // (step)
  std::fill_n(rows, (2 * kPixels + 1) * step, 0.0F);
  with_norm(k, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t p = begin; p < end; p += kPixels) {
      const int64_t count = std::min(kPixels, end - p);
      copy_pixels(blocks, block, count, x + p * block, far, block, rows + k.reach, block, step);
      copy_pixels(blocks, block, count, dy + p * block, far, block, d_rows, block, step);
      for (int64_t r = 0; r < count; ++r) {
        const float* const row = rows + r * step;
        float* const d = d_rows + r * step;
        each_vector(kFloats, channels, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          V direct, ratio;
          norm.split(squares_of(lanes, row + i, 2 * k.reach + 1, 1),
                     load(kFloats, lanes, row + k.reach + i), load(kFloats, lanes, d + i), direct,
                     ratio);
          store(kFloats, lanes, direct, d + i);
          store(kFloats, lanes, ratio, ratios + k.reach + i);
        });
        each_vector(kFloats, channels, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          const V sums = sum_of(lanes, ratios + i, 2 * k.reach + 1, 1);
          const V own = load(kFloats, lanes, row + k.reach + i);
          store(kFloats, lanes, norm.gradient(sums, own, load(kFloats, lanes, d + i)), d + i);
        });
      }
      copy_pixels(blocks, block, count, d_rows, block, step, dx + p * block, far, block);
    }
  });
}

// --- One plane -----------------------------------------------------------------------------------

/// along[v][u] = sum of in[v][u'] (squared) over the neighbourhood along a row; `padded` holds
/// width + 2 * reach elements.
template <bool Squared>
HWY_INLINE void sums_along(int64_t reach, int64_t height, int64_t width, const float* in,
                           float* padded, float* along) {
  std::fill_n(padded, width + 2 * reach, 0.0F);
  for (int64_t v = 0; v < height; ++v) {
    std::copy_n(in + v * width, width, padded + reach);
    each_vector(kFloats, width, [&](int64_t u, auto lanes) CREMA_LANES_LAMBDA {
      store(kFloats, lanes,
            Squared ? squares_of(lanes, padded + u, 2 * reach + 1, 1)
                    : sum_of(lanes, padded + u, 2 * reach + 1, 1),
            along + v * width + u);
    });
  }
}

/// Calls body(place in the plane, sum over the neighbourhood, lanes) for all of it.
template <class Body>
HWY_INLINE void each_box(int64_t reach, int64_t height, int64_t width, const float* along,
                         const Body& body) {
  for (int64_t v = 0; v < height; ++v) {
    const Span span = around(v, reach, height);
    each_vector(kFloats, width, [&](int64_t u, auto lanes) CREMA_LANES_LAMBDA {
      body(v * width + u, sum_of(lanes, along + span.first * width + u, span.count, width), lanes);
    });
  }
}

void plane(const LRNCoefficients& k, int64_t height, int64_t width, const float* x, float* y) {
  float* const along = room_of_thread(lrn_plane_scratch(k.reach, height, width, false));
  sums_along<true>(k.reach, height, width, x, along + height * width, along);
  with_norm(k, [&](const auto& norm) CREMA_LANES_LAMBDA {
    each_box(k.reach, height, width, along,
             [&](int64_t i, V squares, auto lanes) CREMA_LANES_LAMBDA {
               const V own = load(kFloats, lanes, x + i);
               store(kFloats, lanes, norm.forward(squares, own), y + i);
             });
  });
}

void plane_gradient(const LRNCoefficients& k, int64_t height, int64_t width, const float* x,
                    const float* dy, float* dx) {
  const int64_t n = height * width;
  float* const along = room_of_thread(lrn_plane_scratch(k.reach, height, width, true));
  float *const ratios = along + n, *const padded = ratios + n;
  sums_along<true>(k.reach, height, width, x, padded, along);
  with_norm(k, [&](const auto& norm) CREMA_LANES_LAMBDA {
    each_box(k.reach, height, width, along,
             [&](int64_t i, V squares, auto lanes) CREMA_LANES_LAMBDA {
               V direct, ratio;
               norm.split(squares, load(kFloats, lanes, x + i), load(kFloats, lanes, dy + i),
                          direct, ratio);
               store(kFloats, lanes, direct, dx + i);
               store(kFloats, lanes, ratio, ratios + i);
             });
    sums_along<false>(k.reach, height, width, ratios, padded, along);
    each_box(k.reach, height, width, along, [&](int64_t i, V sums, auto lanes) CREMA_LANES_LAMBDA {
      const V direct = load(kFloats, lanes, dx + i);
      const V own = load(kFloats, lanes, x + i);
      store(kFloats, lanes, norm.gradient(sums, own, direct), dx + i);
    });
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(rows);
HWY_EXPORT(rows_gradient);
HWY_EXPORT(pixels);
HWY_EXPORT(pixels_gradient);
HWY_EXPORT(plane);
HWY_EXPORT(plane_gradient);

}  // namespace

void lrn_rows(const LRNCoefficients& c, int64_t channels, int64_t inner, int64_t begin, int64_t end,
              const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(rows)(c, channels, inner, begin, end, x, y);
}

void lrn_rows_gradient(const LRNCoefficients& c, int64_t channels, int64_t inner, int64_t begin,
                       int64_t end, const float* x, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(rows_gradient)(c, channels, inner, begin, end, x, dy, dx);
}

void lrn_pixels(const LRNCoefficients& c, int64_t blocks, int64_t block, int64_t inner,
                int64_t begin, int64_t end, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(pixels)(c, blocks, block, inner, begin, end, x, y);
}

void lrn_pixels_gradient(const LRNCoefficients& c, int64_t blocks, int64_t block, int64_t inner,
                         int64_t begin, int64_t end, const float* x, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(pixels_gradient)(c, blocks, block, inner, begin, end, x, dy, dx);
}

void lrn_plane(const LRNCoefficients& c, int64_t height, int64_t width, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(plane)(c, height, width, x, y);
}

void lrn_plane_gradient(const LRNCoefficients& c, int64_t height, int64_t width, const float* x,
                        const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(plane_gradient)(c, height, width, x, dy, dx);
}

}  // namespace crema
#endif
