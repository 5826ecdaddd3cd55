#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/depthwise_kernels.cpp"
#include "backend/cpu/depthwise_kernels.hpp"

#include <algorithm>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;
using Part = DepthwisePart;
using Block = DepthwiseBlock;

constexpr int64_t kWidth = hn::MaxLanes(Floats());

/// Results that are summed at a time: their sums, the weights of a row of taps and a source fit
/// into 16 registers.
constexpr int kResults = 8;
/// The most taps along an axis whose gradients are summed at a time: 9 sums, a gradient, a source.
constexpr int kSummedTaps = 3;

/// Lane i ^ turn of a vector in lane i; without groups the vector itself.
template <bool Grouped>
class Turn {
 public:
  HWY_INLINE explicit Turn(int64_t turn) : lanes_(of(turn)) {}
  HWY_INLINE V operator()(V v) const {
    if constexpr (Grouped) {
      return hn::TableLookupLanes(v, lanes_);
    } else {
      return v;
    }
  }

 private:
  static HWY_INLINE auto of(int64_t turn) {
    const hn::RebindToSigned<Floats> d;
    return hn::IndicesFromVec(Floats(),
                              hn::Xor(hn::Iota(d, 0), hn::Set(d, static_cast<int32_t>(turn))));
  }
  decltype(of(0)) lanes_;
};

/// A strip of a block.
struct Strip {
  const float *in, *weights, *bias;
  float* out;
};

/// Adds what a row of taps gives T results in one turn. Taps > 0: as many taps, and results that
/// lie Step taps apart. Taps 0: any.
template <int T, int Taps, int Step, bool Grouped, class Lanes>
HWY_INLINE void add_row(const Part& a, Lanes lanes, const float* x, const float* w, int64_t turn,
                        V (&sums)[T]) {
  const Floats d;
  const Turn<Grouped> turned(turn);
  if constexpr (Taps > 0) {
    V weights[Taps];
#pragma GCC unroll 8
    for (int k = 0; k < Taps; ++k) weights[k] = hn::LoadU(d, w + k * a.weights_step);
#pragma GCC unroll 32
    for (int j = 0; j < (T - 1) * Step + Taps; ++j, x += a.in_tap) {
      const V value = turned(load(d, lanes, x));
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const int k = j - t * Step;
        if (k >= 0 && k < Taps) sums[t] = hn::MulAdd(value, weights[k], sums[t]);
      }
    }
  } else {
    for (int64_t k = 0; k < a.taps; ++k, x += a.in_tap, w += a.weights_step) {
      const V factor = hn::LoadU(d, w);
      const float* from = x;
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t, from += a.in_step) {
        sums[t] = hn::MulAdd(turned(load(d, lanes, from)), factor, sums[t]);
      }
    }
  }
}

/// T results along axis `a`; Taps and Step as above.
template <int T, int Taps, int Step, bool Grouped, class Lanes>
HWY_INLINE void sum_up(const Part& a, const Part& b, const Block& block, Lanes lanes,
                       const Strip& strip) {
  const Floats d;
  const int64_t out_step = a.out_step;
  V sums[T];
  const V start = strip.bias != nullptr ? hn::LoadU(d, strip.bias) : hn::Zero(d);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) sums[t] = start;
  const float *x = strip.in, *w = strip.weights;
  for (int64_t row = 0; row < b.taps; ++row, x += b.in_tap, w += b.weights_step) {
    const int64_t turns = Grouped ? block.group : 1;
    for (int64_t turn = 0; turn < turns; ++turn) {
      add_row<T, Taps, Step, Grouped>(a, lanes, x, w + turn * kWidth, turn, sums);
    }
  }
  if (block.adds) {
    const float* from = strip.out;
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t, from += out_step) {
      sums[t] = hn::Add(sums[t], load(d, lanes, from));
    }
  }
  if (block.relu) {
    const V zero = hn::Zero(d), slope = hn::Set(d, block.slope);
    const bool leaks = block.slope != 0.0F;  // slope 0 is no factor: -inf becomes 0, NaN stays
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      sums[t] =
          hn::IfThenElse(hn::Lt(sums[t], zero), leaks ? hn::Mul(sums[t], slope) : zero, sums[t]);
    }
  }
  float* to = strip.out;
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t, to += out_step) store(d, lanes, sums[t], to);
}

/// T results along `a` from `first` on, and all along `b`, for strips of all lanes.
template <int T, int Taps, int Step, bool Grouped>
HWY_INLINE void band(const Part& of_a, const Part& of_b, const Block& of_block, int64_t strips,
                     int64_t first) {
  // Copies: stores of vectors may change the originals, for all that the compiler knows.
  const Part a = of_a, b = of_b;
  const Block block = of_block;
  const float* in = block.in + a.in + b.in + first * a.in_step;
  float* out = block.out + a.out + b.out + first * a.out_step;
  for (int64_t i = 0; i < b.count; ++i, in += b.in_step, out += b.out_step) {
    Strip strip{in, block.weights + a.weights + b.weights, block.bias, out};
    for (int64_t s = 0; s < strips; ++s) {
      sum_up<T, Taps, Step, Grouped>(a, b, block, AllLanes(), strip);
      strip.in += kWidth;
      strip.out += kWidth;
      strip.weights += block.weights_strip;
      if (strip.bias != nullptr) strip.bias += kWidth;
    }
  }
}

template <bool Grouped>
void cross(const Part& a, const Part& b, const Block& block, int64_t strips);

template <int Taps, int Step, bool Grouped>
void bands(const Part& a, const Part& b, const Block& block, int64_t strips) {
  int64_t i = 0;
  for (; i + kResults <= a.count; i += kResults) {
    band<kResults, Taps, Step, Grouped>(a, b, block, strips, i);
  }
  // Frequent: rows of 7 and 14 results.
  if constexpr (Taps == 3) {
    if (a.count - i == 7) return band<7, Taps, Step, Grouped>(a, b, block, strips, i);
    if (a.count - i == 6) return band<6, Taps, Step, Grouped>(a, b, block, strips, i);
  }
  if ((a.count & 4) != 0) band<4, Taps, Step, Grouped>(a, b, block, strips, i);
  i += a.count & 4;
  const int64_t left = a.count - i;
  if (left == 0) return;
  if (b.count > left) {
    Part rest = a;
    rest.count = left;
    rest.in += i * a.in_step;
    rest.out += i * a.out_step;
    return cross<Grouped>(b, rest, block, strips);
  }
  if ((left & 2) != 0) band<2, Taps, Step, Grouped>(a, b, block, strips, i);
  if ((left & 1) != 0) band<1, Taps, Step, Grouped>(a, b, block, strips, i + (left & 2));
}

/// The results that are in both parts, of strips of all lanes. The longer part is the one along
/// which several results are summed at a time.
template <bool Grouped>
void cross(const Part& rows, const Part& columns, const Block& block, int64_t strips) {
  const bool along_rows = rows.count > columns.count;
  const Part &a = along_rows ? rows : columns, &b = along_rows ? columns : rows;
  const bool one = a.in_step == a.in_tap, two = a.in_step == 2 * a.in_tap;
  if (one && a.taps == 3) return bands<3, 1, Grouped>(a, b, block, strips);
  if (two && a.taps == 3) return bands<3, 2, Grouped>(a, b, block, strips);
  // Rare with groups of several channels, and each of them takes seconds to compile.
  if constexpr (!Grouped) {
    if (one && a.taps == 1) return bands<1, 1, false>(a, b, block, strips);
    if (one && a.taps == 2) return bands<2, 1, false>(a, b, block, strips);
    if (one && a.taps == 5) return bands<5, 1, false>(a, b, block, strips);
    if (two && a.taps == 5) return bands<5, 2, false>(a, b, block, strips);
  }
  bands<0, 0, Grouped>(a, b, block, strips);
}

/// The same for a strip that has fewer lanes, behind so many others.
template <bool Grouped>
void last_strip(const Part& a, const Part& b, const Block& block, int64_t strips) {
  const FirstLanes lanes{block.last_lanes};
  for (int64_t i = 0; i < b.count; ++i) {
    const int64_t in = a.in + b.in + i * b.in_step, out = a.out + b.out + i * b.out_step;
    Strip strip{block.in + in + strips * kWidth,
                block.weights + a.weights + b.weights + strips * block.weights_strip,
                block.bias != nullptr ? block.bias + strips * kWidth : nullptr,
                block.out + out + strips * kWidth};
    const auto step = [&](int64_t results) {
      strip.in += results * a.in_step;
      strip.out += results * a.out_step;
    };
    int64_t k = 0;
    for (; k + 4 <= a.count; k += 4, step(4)) sum_up<4, 0, 0, Grouped>(a, b, block, lanes, strip);
    for (; k < a.count; ++k, step(1)) sum_up<1, 0, 0, Grouped>(a, b, block, lanes, strip);
  }
}

template <bool Grouped>
void all_results(const Part& rows, const Part* columns, int64_t count, const Block& block) {
  const int64_t strips = block.last_lanes == kWidth ? block.strips : block.strips - 1;
  for (int64_t i = 0; i < count; ++i) {
    if (strips > 0) cross<Grouped>(rows, columns[i], block, strips);
    if (strips < block.strips) last_strip<Grouped>(columns[i], rows, block, strips);
  }
}

void results(const Part& rows, const Part* columns, int64_t count, const Block& block) {
  (block.group > 1 ? all_results<true> : all_results<false>)(rows, columns, count, block);
}

/// The sums of A x B taps in one turn, from `sums` on.
template <int A, int B, bool Grouped, class Lanes>
void tap_sums(const Part& a, const Part& b, const DepthwiseSums& s, int64_t in, int64_t weights,
              int64_t turn, Lanes lanes) {
  const Floats d;
  const Turn<Grouped> turned(turn);
  const int64_t a_count = a.count, a_step = a.in_step, a_tap = a.in_tap, a_out = a.out_step;
  const int64_t b_count = b.count, b_step = b.in_step, b_tap = b.in_tap, b_out = b.out_step;
  V sum[B][A];
#pragma GCC unroll 8
  for (int m = 0; m < B; ++m) {
#pragma GCC unroll 8
    for (int k = 0; k < A; ++k) sum[m][k] = hn::Zero(d);
  }
  for (int64_t image = 0; image < s.images; ++image) {
    const float* x_row = s.in + image * s.in_image + in;
    const float* factor_row = s.gradient + image * s.gradient_image + a.out + b.out;
    for (int64_t j = 0; j < b_count; ++j, x_row += b_step, factor_row += b_out) {
      const float *x = x_row, *factor = factor_row;
      for (int64_t i = 0; i < a_count; ++i, x += a_step, factor += a_out) {
        const V one = turned(load(d, lanes, factor));
#pragma GCC unroll 8
        for (int m = 0; m < B; ++m) {
#pragma GCC unroll 8
          for (int k = 0; k < A; ++k) {
            sum[m][k] = hn::MulAdd(load(d, lanes, x + m * b_tap + k * a_tap), one, sum[m][k]);
          }
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < B; ++m) {
#pragma GCC unroll 8
    for (int k = 0; k < A; ++k) {
      float* const to = s.sums + weights + m * b.weights_step + k * a.weights_step;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sum[m][k]), d, to);
    }
  }
}

/// tap_sums<A, B> for the numbers of taps at run time.
template <int A, int B, bool Grouped, class Lanes>
HWY_INLINE void some_tap_sums(int64_t taps_a, int64_t taps_b, const Part& a, const Part& b,
                              const DepthwiseSums& s, int64_t in, int64_t weights, int64_t turn,
                              Lanes lanes) {
  if constexpr (A > 1) {
    if (taps_a < A) {
      return some_tap_sums<A - 1, B, Grouped>(taps_a, taps_b, a, b, s, in, weights, turn, lanes);
    }
  }
  if constexpr (B > 1) {
    if (taps_b < B) {
      return some_tap_sums<A, B - 1, Grouped>(taps_a, taps_b, a, b, s, in, weights, turn, lanes);
    }
  }
  tap_sums<A, B, Grouped>(a, b, s, in, weights, turn, lanes);
}

/// Calls body(first, last) for parts of [0, taps) of about the same size.
template <class Body>
HWY_INLINE void each_few(int64_t taps, const Body& body) {
  const int64_t parts = (taps + kSummedTaps - 1) / kSummedTaps;
  for (int64_t p = 0; p < parts; ++p) body(taps * p / parts, taps * (p + 1) / parts);
}

template <bool Grouped, class Lanes>
HWY_INLINE void cross_sums(const Part& rows, const Part& columns, const DepthwiseSums& s,
                           int64_t turn, Lanes lanes) {
  const bool along_rows = rows.count > columns.count;
  const Part &a = along_rows ? rows : columns, &b = along_rows ? columns : rows;
  const int64_t in = a.in + b.in, weights = a.weights + b.weights + turn * kWidth;
  each_few(b.taps, [&](int64_t begin_b, int64_t end_b) CREMA_LANES_LAMBDA {
    each_few(a.taps, [&](int64_t begin_a, int64_t end_a) CREMA_LANES_LAMBDA {
      some_tap_sums<kSummedTaps, kSummedTaps, Grouped>(
          end_a - begin_a, end_b - begin_b, a, b, s, in + begin_a * a.in_tap + begin_b * b.in_tap,
          weights + begin_a * a.weights_step + begin_b * b.weights_step, turn, lanes);
    });
  });
}

template <bool Grouped>
void all_sums(const Part& rows, const Part* columns, int64_t count, const DepthwiseSums& s) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t turn = 0; turn < s.group; ++turn) {
      if (s.lanes == kWidth) {
        cross_sums<Grouped>(rows, columns[i], s, turn, AllLanes());
      } else {
        cross_sums<Grouped>(rows, columns[i], s, turn, FirstLanes{s.lanes});
      }
    }
  }
}

void sums(const Part& rows, const Part* columns, int64_t count, const DepthwiseSums& s) {
  (s.group > 1 ? all_sums<true> : all_sums<false>)(rows, columns, count, s);
}

template <class Lanes>
HWY_INLINE void add_pixels(const float* from, int64_t pixels, int64_t pixel, Lanes lanes,
                           float* sums) {
  constexpr int T = 4;
  const Floats d;
  V each[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) each[t] = hn::Zero(d);
  int64_t i = 0;
  for (; i + T <= pixels; i += T) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t, from += pixel) each[t] = hn::Add(each[t], load(d, lanes, from));
  }
  for (; i < pixels; ++i, from += pixel) each[0] = hn::Add(each[0], load(d, lanes, from));
  const V all = hn::Add(hn::Add(each[0], each[1]), hn::Add(each[2], each[3]));
  hn::StoreU(hn::Add(hn::LoadU(d, sums), all), d, sums);
}

void pixel_sums(const float* from, int64_t pixels, int64_t pixel, int64_t lanes, float* sums) {
  if (lanes == kWidth) {
    add_pixels(from, pixels, pixel, AllLanes(), sums);
  } else {
    add_pixels(from, pixels, pixel, FirstLanes{lanes}, sums);
  }
}

constexpr DepthwiseKernels kKernels = {kWidth, results, sums, pixel_sums};

const DepthwiseKernels* table() { return &kKernels; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(table);
}  // namespace

const DepthwiseKernels& depthwise_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace crema
#endif  // HWY_ONCE
