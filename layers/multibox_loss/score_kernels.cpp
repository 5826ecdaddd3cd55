#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/multibox_loss/score_kernels.cpp"
#include "layers/multibox_loss/score_kernels.hpp"

#include <algorithm>
#include <array>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"
#include "layers/softmax/softmax_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D kFloats;

/// 1 to 1.0616 times exp(x), exactly 1 for 0: of a power of two, the fraction of the exponent
/// becomes the fraction of the number. 0 below exp(-88); 2^101 for NaN and above it.
HWY_INLINE V rough_exp(V x) {
  const auto set = [](double value)
                       HWY_ATTR { return hn::Set(kFloats, static_cast<float>(value)); };
  // 512 leaves 14 bits for the fraction, and the 8 of the exponent in front of them. Of NaN and a
  // number, Min takes the number.
  V bits = hn::MulAdd(x, set(1.4426950408889634), set(512 + 127));
  bits = hn::Max(hn::Min(bits, set(512 + 228)), set(512));
  const hn::RebindToUnsigned<D> words;
  return hn::BitCast(kFloats, hn::ShiftLeft<9>(hn::BitCast(words, bits)));
}

/// The sums of the lanes of as many vectors as there are lanes, in order.
HWY_INLINE V sums_of(V* vectors) {
#if HWY_TARGET != HWY_SCALAR
  for (size_t count = hn::MaxLanes(kFloats) / 2; count > 0; count /= 2) {
    for (size_t i = 0; i < count; ++i) {
      const V low = vectors[2 * i], high = vectors[2 * i + 1];
      vectors[i] = hn::Add(hn::ConcatEven(kFloats, high, low), hn::ConcatOdd(kFloats, high, low));
    }
  }
#endif
  return vectors[0];
}

void estimates(int64_t begin, int64_t end, int64_t classes, int64_t background, const float* x,
               float* to) {
  constexpr auto kRows = static_cast<int64_t>(hn::MaxLanes(kFloats));
  // Less the term of the background, which is 1; classes / 2^13 outweigh the rounding of the sum.
  const V more = hn::Set(kFloats, 0x1p-13F * static_cast<float>(classes) - 1);
  constexpr int64_t kAhead = 1024;  // scores; fetched early, a fifth of the time less
  const int64_t full = classes / kRows * kRows;
  const FirstLanes rest{classes - full};
  const auto tail = hn::FirstN(kFloats, static_cast<size_t>(rest.n));
  for (; begin < end; begin += kRows, to += kRows) {
    const int64_t rows = HWY_MIN(kRows, end - begin);
    V sums[kRows];
    for (int64_t row = 0; row < kRows; ++row) {
      const float* const scores = x + (begin + HWY_MIN(row, rows - 1)) * classes;
      const V own = hn::Set(kFloats, scores[background]);
      V sum = hn::Zero(kFloats);
      for (int64_t c = 0; c < full; c += kRows) {
        __builtin_prefetch(scores + c + kAhead);
        sum = hn::Add(sum, rough_exp(hn::Sub(hn::LoadU(kFloats, scores + c), own)));
      }
      if (full < classes) {
        const V power = rough_exp(hn::Sub(load(kFloats, rest, scores + full), own));
        sum = hn::IfThenElse(tail, hn::Add(sum, power), sum);
      }
      sums[row] = sum;
    }
    const V all = hn::Add(sums_of(sums), more);
    if (rows == kRows) {
      store(kFloats, AllLanes{}, all, to);
    } else {
      store(kFloats, FirstLanes{rows}, all, to);
    }
  }
}

void gradients(const int64_t* positions, int64_t count, int64_t classes, float scale,
               const float* x, const double* log_sum, const int32_t* labels, float* dx) {
  using Wide = WideLanes<D>;
  const V factor = hn::Set(kFloats, scale);
  for (int64_t i = 0; i < count; ++i) {
    constexpr int64_t kAhead = 8;  // these positions are far apart
    if (i + kAhead < count) {
      const float* const next = x + positions[i + kAhead] * classes;
      for (int64_t c = 0; c < classes; c += 16) __builtin_prefetch(next + c);
    }
    const int64_t p = positions[i];
    Wide log;
    log.low = log.high = hn::Set(typename Wide::DD(), log_sum[p]);
    each_vector(kFloats, classes, [&](int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      Wide below(load(kFloats, lanes, x + p * classes + c));
      below.subtract(log);
      store(kFloats, lanes, hn::Mul(factor, exp_of(kFloats, below.narrow())), dx + p * classes + c);
    });
    dx[p * classes + labels[p]] -= scale;
  }
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(estimates);
HWY_EXPORT(gradients);

}  // namespace

void estimate_losses(int64_t begin, int64_t end, int64_t classes, int64_t background,
                     const float* x, float* to) {
  HWY_DYNAMIC_DISPATCH(estimates)(begin, end, classes, background, x, to);
}

void log_sums_of(std::span<const int64_t> positions, int64_t classes, const float* x,
                 std::vector<float>& rows, double* log_sum) {
  constexpr size_t kRows = 64;
  std::array<double, kRows> found;
  AxisSplit split;
  split.outer = kRows;
  split.size = classes;
  rows.resize(static_cast<size_t>(split.count()));
  while (!positions.empty()) {
    const auto together = positions.first(std::min(kRows, positions.size()));
    float* row = rows.data();
    for (const int64_t p : together) row = std::copy_n(x + p * classes, classes, row);
    softmax_positions(split, 0, static_cast<int64_t>(together.size()), rows.data(), nullptr,
                      found.data());
    for (size_t i = 0; i < together.size(); ++i) log_sum[together[i]] = found[i];
    positions = positions.subspan(together.size());
  }
}

void score_gradients(const int64_t* positions, int64_t count, int64_t classes, float scale,
                     const float* x, const double* log_sum, const int32_t* labels, float* dx) {
  HWY_DYNAMIC_DISPATCH(gradients)
  (positions, count, classes, scale, x, log_sum, labels, dx);
}

}  // namespace crema
#endif
