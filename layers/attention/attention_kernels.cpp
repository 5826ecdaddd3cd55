#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/attention/attention_kernels.cpp"
#include "layers/attention/attention_kernels.hpp"

#include "backend/cpu/float_kernels.hpp"
#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;
/// Rows of a tile: with two vectors each, they fill the registers of one set of sums.
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 12 : 4;

/// With kVectors of the two vectors of a row.
template <int kRows, int kVectors, class T>
HWY_INLINE void tile(const PanelProduct<T>& p, const T* a, T* c) {
  const Tag<T> d;
  const int64_t lanes = lanes_of(d);
  hn::Vec<Tag<T>> low[kRows], high[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    low[r] = p.adds ? hn::LoadU(d, c + r * p.c_row) : hn::Zero(d);
    if constexpr (kVectors == 2)
      high[r] = p.adds ? hn::LoadU(d, c + r * p.c_row + lanes) : hn::Zero(d);
  }
  const T* b = p.b;
  const int64_t row = p.a_row, step = p.a_inner;
  // Three rows a pointer: one for each would not leave registers for all.
  constexpr int kPointers = (kRows + 2) / 3;
  for (int64_t o = 0; o < p.outer; ++o, a += p.a_outer) {
    const T* at[kPointers];
#pragma GCC unroll 4
    for (int k = 0; k < kPointers; ++k) at[k] = a + 3 * k * row;
    for (int64_t k = 0; k < p.inner; ++k, b += 2 * lanes) {
      const auto left = hn::LoadU(d, b), right = kVectors == 2 ? hn::LoadU(d, b + lanes) : left;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(d, at[r / 3][r % 3 * row]);
        low[r] = hn::MulAdd(factor, left, low[r]);
        if constexpr (kVectors == 2) high[r] = hn::MulAdd(factor, right, high[r]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kPointers; ++i) at[i] += step;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(low[r], d, c + r * p.c_row);
    if constexpr (kVectors == 2) hn::StoreU(high[r], d, c + r * p.c_row + lanes);
  }
}

template <int kVectors, class T>
HWY_INLINE void all_rows(const PanelProduct<T>& p) {
  int64_t r = 0;
  for (; r + kTileRows <= p.rows; r += kTileRows) {
    tile<kTileRows, kVectors>(p, p.a + r * p.a_row, p.c + r * p.c_row);
  }
  for (; r + 4 <= p.rows; r += 4) tile<4, kVectors>(p, p.a + r * p.a_row, p.c + r * p.c_row);
  for (; r < p.rows; ++r) tile<1, kVectors>(p, p.a + r * p.a_row, p.c + r * p.c_row);
}

template <class T>
HWY_FLATTEN void product(const PanelProduct<T>& given) {
  const PanelProduct<T> p = given;  // on the stack: stores cannot change it
  p.narrow ? all_rows<1>(p) : all_rows<2>(p);
}

/// The queries of a vector of a panel, and which of their keys count.
template <class T>
struct Queries {
  hn::Vec<Tag<T>> numbers;  // exact up to 2^24 in f32, counted from the first key

  HWY_INLINE Queries(const ScorePanel<T>& panel, int64_t lane)
      : numbers(hn::Iota(Tag<T>(), static_cast<T>(panel.first_query - panel.first_key + lane))) {}
  HWY_INLINE hn::Vec<Tag<T>> keep(const ScorePanel<T>& panel, int64_t key,
                                  hn::Vec<Tag<T>> score) const {
    const Tag<T> d;
    const auto least = hn::Neg(hn::Inf(d));
    if (panel.padded != nullptr && panel.padded[key] != 0) return least;
    if (!panel.causal) return score;
    return hn::IfThenElse(hn::Ge(numbers, hn::Set(d, static_cast<T>(key))), score, least);
  }
};

/// exp(x) for x <= 0, or hardly above.
HWY_INLINE hn::Vec<Tag<float>> weight_of(Tag<float>, hn::Vec<Tag<float>> x) {
  return exp_below_0(Value<Tag<float>>(x)).raw;
}
HWY_INLINE hn::Vec<Tag<double>> weight_of(Tag<double> d, hn::Vec<Tag<double>> x) {
  return exp_of(d, x);
}

/// exp(score - shift); a shift of -infinity, of queries without any key, counts as 0.
template <class T>
HWY_INLINE hn::Vec<Tag<T>> shift_of(hn::Vec<Tag<T>> most) {
  const Tag<T> d;
  return hn::IfThenElse(hn::Eq(most, hn::Neg(hn::Inf(d))), hn::Zero(d), most);
}

template <class T>
HWY_FLATTEN void soften(const ScorePanel<T>& given, T* most, T* total, T* factor) {
  const ScorePanel<T> panel = given;
  const Tag<T> d;
  const int64_t lanes = lanes_of(d), width = 2 * lanes;
  const bool partial = panel.padded != nullptr || panel.causal;
  for (int64_t lane = 0; lane < (panel.narrow ? lanes : width); lane += lanes) {
    const Queries<T> queries(panel, lane);
    const auto before = hn::LoadU(d, most + lane);
    auto largest = before;
    for (int64_t k = 0; k < panel.keys; ++k) {
      T* const at = panel.scores + k * width + lane;
      auto score = hn::LoadU(d, at);
      if (partial) {
        score = queries.keep(panel, k, score);
        hn::StoreU(score, d, at);
      }
      largest = hn::Max(largest, score);
    }
    const auto shift = shift_of<T>(largest);
    auto sum = hn::Zero(d), other = hn::Zero(d);
    int64_t k = 0;
    for (; k + 2 <= panel.keys; k += 2) {
      T* const at = panel.scores + k * width + lane;
      const auto first = weight_of(d, hn::Sub(hn::LoadU(d, at), shift));
      const auto second = weight_of(d, hn::Sub(hn::LoadU(d, at + width), shift));
      sum = hn::Add(sum, first);
      other = hn::Add(other, second);
      hn::StoreU(first, d, at);
      hn::StoreU(second, d, at + width);
    }
    if (k < panel.keys) {
      T* const at = panel.scores + k * width + lane;
      const auto last = weight_of(d, hn::Sub(hn::LoadU(d, at), shift));
      sum = hn::Add(sum, last);
      hn::StoreU(last, d, at);
    }
    const auto scale = weight_of(d, hn::Sub(before, shift));
    hn::StoreU(largest, d, most + lane);
    hn::StoreU(scale, d, factor + lane);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, total + lane), scale, hn::Add(sum, other)), d, total + lane);
  }
}

template <class T>
HWY_FLATTEN void weights(const ScorePanel<T>& given, const T* log_sum) {
  const ScorePanel<T> panel = given;
  const Tag<T> d;
  const int64_t lanes = lanes_of(d), width = 2 * lanes;
  const bool partial = panel.padded != nullptr || panel.causal;
  const Queries<T> first(panel, 0), second(panel, lanes);
  const auto shift = hn::LoadU(d, log_sum), other = hn::LoadU(d, log_sum + lanes);
  for (int64_t k = 0; k < panel.keys; ++k) {
    T* const at = panel.scores + k * width;
    auto low = hn::LoadU(d, at), high = hn::LoadU(d, at + lanes);
    if (partial) {
      low = first.keep(panel, k, low);
      high = second.keep(panel, k, high);
    }
    hn::StoreU(weight_of(d, hn::Sub(low, shift)), d, at);
    hn::StoreU(weight_of(d, hn::Sub(high, other)), d, at + lanes);
  }
}

template <class T>
HWY_FLATTEN void score_gradients(int64_t keys, const T* weights, const T* mean, T* gradients) {
  const Tag<T> d;
  const int64_t lanes = lanes_of(d), width = 2 * lanes;
  const auto low = hn::LoadU(d, mean), high = hn::LoadU(d, mean + lanes);
  for (int64_t i = 0; i < keys * width; i += width) {
    const auto left = hn::Sub(hn::LoadU(d, gradients + i), low);
    const auto right = hn::Sub(hn::LoadU(d, gradients + i + lanes), high);
    hn::StoreU(hn::Mul(hn::LoadU(d, weights + i), left), d, gradients + i);
    hn::StoreU(hn::Mul(hn::LoadU(d, weights + i + lanes), right), d, gradients + i + lanes);
  }
}

template <class T>
HWY_FLATTEN void to_panels(int64_t rows, int64_t n, const T* x, int64_t x_row, T factor, T* panels,
                           int64_t panel) {
  const Tag<T> d;
  const int64_t lanes = lanes_of(d), width = 2 * lanes;
  const auto scale = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += width, panels += panel) {
    const int64_t first = n - i, second = n - i - lanes;
    for (int64_t r = 0; r < rows; ++r) {
      const T* const from = x + r * x_row + i;
      T* const to = panels + r * width;
      const auto low = first >= lanes ? hn::LoadU(d, from) : load(d, FirstLanes{first}, from);
      const auto high = second >= lanes ? hn::LoadU(d, from + lanes)
                        : second > 0    ? load(d, FirstLanes{second}, from + lanes)
                                        : hn::Zero(d);
      hn::StoreU(hn::Mul(low, scale), d, to);
      hn::StoreU(hn::Mul(high, scale), d, to + lanes);
    }
  }
}

template <class T>
HWY_FLATTEN void scale_rows(int64_t rows, int64_t n, const T* factor, const T* x, int64_t x_row,
                            T* y, int64_t y_row) {
  const Tag<T> d;
  for (int64_t r = 0; r < rows; ++r, x += x_row, y += y_row) {
    const auto scale = hn::Set(d, factor[r]);
    each_vector(d, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      store(d, lanes, hn::Mul(load(d, lanes, x + i), scale), y + i);
    });
  }
}

template <class T>
HWY_FLATTEN void dot_rows(int64_t rows, int64_t n, const T* x, const T* y, int64_t row, T* sums) {
  const Tag<T> d;
  for (int64_t r = 0; r < rows; ++r, x += row, y += row) {
    auto sum = hn::Zero(d);
    each_vector(d, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      sum = hn::MulAdd(load(d, lanes, x + i), load(d, lanes, y + i), sum);
    });
    sums[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

template <class T>
constexpr AttentionKernels<T> kKernels = {2 * int64_t{hn::MaxLanes(Tag<T>())},
                                          product<T>,
                                          soften<T>,
                                          weights<T>,
                                          score_gradients<T>,
                                          to_panels<T>,
                                          dot_rows<T>,
                                          scale_rows<T>};

const AttentionKernels<float>* kernels_f32() { return &kKernels<float>; }
const AttentionKernels<double>* kernels_f64() { return CREMA_KERNELS_F64(kKernels); }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
CREMA_FLOAT_KERNELS(AttentionKernels, attention_kernels);
}  // namespace crema
#endif  // HWY_ONCE
