#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/softmax/softmax_kernels.cpp"
#include "layers/softmax/softmax_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"
#include "core/transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D kFloats;

// --- One position: its classes are neighbours ----------------------------------------------------

/// The largest value, and the sum of the exponentials of what is below it.
struct RowSum {
  double largest, sum;
};

RowSum row(int64_t classes, const float* x, float* y) {
  V most = hn::Set(kFloats, x[0]);
  each_vector(kFloats, classes, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    most = hn::Max(most, keep(kFloats, lanes, load(kFloats, lanes, x + i), most));
  });
  const float largest = hn::GetLane(hn::MaxOfLanes(kFloats, most));
  most = hn::Set(kFloats, largest);
  WideLanes<D> sums;
  each_vector(kFloats, classes, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V power = exp_of(kFloats, hn::Sub(load(kFloats, lanes, x + i), most));
    sums.add(WideLanes<D>(keep(kFloats, lanes, power, hn::Zero(kFloats))));
    if (y) store(kFloats, lanes, power, y + i);
  });
  const double sum = sums.total();
  const RowSum result{static_cast<double>(largest), sum};
  if (!y) return result;
  const V scale = hn::Set(kFloats, static_cast<float>(1 / sum));
  each_vector(kFloats, classes, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    store(kFloats, lanes, hn::Mul(load(kFloats, lanes, y + i), scale), y + i);
  });
  return result;
}

/// Rows [begin, end). Logarithms are those of vectors of rows.
void rows(int64_t classes, int64_t begin, int64_t end, const float* x, float* y, double* log_sum) {
  constexpr int64_t kBlock = 64;
  HWY_ALIGN double largest[kBlock] = {}, sums[kBlock];
  std::fill_n(sums, kBlock, 1.0);
  const WideLanes<D>::DD wide;
  for (int64_t p = begin; p < end; p += kBlock) {
    const int64_t count = std::min(kBlock, end - p);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (p + i) * classes;
      const RowSum sum = row(classes, x + at, y ? y + at : nullptr);
      largest[i] = sum.largest;
      sums[i] = sum.sum;
    }
    if (!log_sum) continue;
    for (size_t i = 0; i < kBlock; i += hn::Lanes(wide)) {
      const auto logs = log_of(wide, hn::Load(wide, sums + i));
      hn::Store(hn::Add(hn::Load(wide, largest + i), logs), wide, sums + i);
    }
    std::copy_n(sums, count, log_sum + (p - begin));
    std::fill_n(sums, kBlock, 1.0);
  }
}

void row_gradient(int64_t classes, const float* dy, const float* y, float* dx) {
  WideLanes<D> products;
  each_vector(kFloats, classes, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    products.add_product(WideLanes<D>(load(kFloats, lanes, dy + i)),
                         WideLanes<D>(load(kFloats, lanes, y + i)));
  });
  const V sum = hn::Set(kFloats, static_cast<float>(products.total()));
  each_vector(kFloats, classes, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V d = hn::Sub(load(kFloats, lanes, dy + i), sum);
    store(kFloats, lanes, hn::Mul(load(kFloats, lanes, y + i), d), dx + i);
  });
}

// --- Neighbouring positions, one a lane ----------------------------------------------------------

template <class Lanes>
HWY_INLINE void columns(Lanes lanes, const AxisSplit& s, const float* x, float* y,
                        double* log_sum) {
  const int64_t end = s.size * s.inner;
  V largest = load(kFloats, lanes, x);
  for (int64_t i = s.inner; i < end; i += s.inner) {
    largest = hn::Max(largest, load(kFloats, lanes, x + i));
  }
  WideLanes<D> sum;
  for (int64_t i = 0; i < end; i += s.inner) {
    const V power = exp_of(kFloats, hn::Sub(load(kFloats, lanes, x + i), largest));
    sum.add(WideLanes<D>(power));
    if (y) store(kFloats, lanes, power, y + i);
  }
  using Wide = WideLanes<D>;
  const typename Wide::DD wide;
  if (log_sum) {
    Wide logs(largest), log_of_sum;
    log_of_sum.low = log_of(wide, sum.low);
    log_of_sum.high = log_of(wide, sum.high);
    logs.add(log_of_sum);
    logs.store_to(lanes, log_sum);
  }
  if (!y) return;
  const auto one = hn::Set(wide, 1.0);
  sum.low = hn::Div(one, sum.low);
  sum.high = hn::Div(one, sum.high);
  const V scale = sum.narrow();
  for (int64_t i = 0; i < end; i += s.inner) {
    store(kFloats, lanes, hn::Mul(load(kFloats, lanes, y + i), scale), y + i);
  }
}

template <class Lanes>
HWY_INLINE void columns_gradient(Lanes lanes, const AxisSplit& s, const float* dy, const float* y,
                                 float* dx) {
  const int64_t end = s.size * s.inner;
  WideLanes<D> products;
  for (int64_t i = 0; i < end; i += s.inner) {
    products.add_product(WideLanes<D>(load(kFloats, lanes, dy + i)),
                         WideLanes<D>(load(kFloats, lanes, y + i)));
  }
  const V sum = products.narrow();
  for (int64_t i = 0; i < end; i += s.inner) {
    const V d = hn::Sub(load(kFloats, lanes, dy + i), sum);
    store(kFloats, lanes, hn::Mul(load(kFloats, lanes, y + i), d), dx + i);
  }
}

/// Calls body(offset of the first value, its number from `begin`, lanes) for vectors of positions,
/// none of which goes beyond its row.
template <class Body>
HWY_INLINE void each_columns(const AxisSplit& s, int64_t begin, int64_t end, const Body& body) {
  for (int64_t p = begin; p < end;) {
    const int64_t count = std::min(s.inner - p % s.inner, end - p), at = s.at(p);
    each_vector(kFloats, count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      body(at + i, p - begin + i, lanes);
    });
    p += count;
  }
}

// --- Rows of few classes, turned by blocks: rows are lanes ---------------------------------------

/// exp(x) for x <= 0, for sums with 1: to a relative error of 2e-7 near 0 and 3e-6 at -40; below
/// -87 that of -87; anything for NaN. 2^f, f in [-1/2, 1/2], is a polynomial that is 1 at 0.
HWY_INLINE V exp_below(V x) {
  const auto set = [](double value)
                       HWY_ATTR { return hn::Set(kFloats, static_cast<float>(value)); };
  const V log2e = set(1.4426950408889634);
  x = hn::Max(x, set(-87));
  // 1.5 * 2^23 leaves a whole number in the last bits.
  const V rounded = hn::MulAdd(x, log2e, set(12582912));
  const V f = hn::MulSub(x, log2e, hn::Sub(rounded, set(12582912)));
  V power = set(1.3264727e-3);
  for (const double c : {9.67151265e-3, 5.55073374e-2, 0.240222421, 0.693146978, 1.0}) {
    power = hn::MulAdd(power, f, set(c));
  }
  const hn::RebindToUnsigned<D> bits;
  return hn::BitCast(
      kFloats, hn::Add(hn::BitCast(bits, power), hn::ShiftLeft<23>(hn::BitCast(bits, rounded))));
}

/// log_sum[i] of rows of a block: x (classes, `step`), a lane a row.
template <class Lanes>
HWY_INLINE void log_sums(Lanes lanes, int64_t classes, int64_t step, const float* x,
                         double* log_sum) {
  V largest = hn::Load(kFloats, x);
  auto numbers = hn::Eq(largest, largest);  // no score is NaN
  for (int64_t c = 1; c < classes; ++c) {
    const V score = hn::Load(kFloats, x + c * step);
    largest = hn::Max(largest, score);
    numbers = hn::And(numbers, hn::Eq(score, score));
  }
  // The largest scores, whose terms are 1, are counted: small terms keep their digits so.
  const V one = hn::Set(kFloats, 1.0F);
  V rest = hn::Zero(kFloats), ones = hn::Set(kFloats, -1.0F);
  for (int64_t c = 0; c < classes; ++c) {
    const V score = hn::Load(kFloats, x + c * step);
    const auto is_largest = hn::Eq(score, largest);
    const V term = exp_below(hn::Sub(score, largest));
    rest = hn::Add(rest, hn::IfThenZeroElse(is_largest, term));
    ones = hn::Add(ones, hn::IfThenElseZero(is_largest, one));
  }
  const V logs = hn::Log1p(kFloats, hn::Add(rest, ones));
  // NaN where a score is NaN or the largest one infinite, as the sum of exponentials is.
  const V nothing = hn::Sub(largest, largest);
  WideLanes<D> result(hn::IfThenElse(numbers, hn::Add(logs, nothing), hn::NaN(kFloats)));
  result.add(WideLanes<D>(largest));
  result.store_to(lanes, log_sum);
}

constexpr int64_t kFewClasses = 64;
void few_classes(int64_t classes, int64_t begin, int64_t end, const float* x, float* y,
                 double* log_sum) {
  constexpr int64_t kRows = 64;
  HWY_ALIGN float block[kFewClasses * kRows] = {};
  const auto bits = [](float* floats) { return reinterpret_cast<uint32_t*>(floats); };
  AxisSplit split;
  split.size = classes;
  split.inner = kRows;
  for (int64_t p = begin; p < end; p += kRows) {
    const int64_t count = std::min(kRows, end - p);
    double* const logs = log_sum ? log_sum + (p - begin) : nullptr;
    transpose(reinterpret_cast<const uint32_t*>(x + p * classes), classes, bits(block), kRows,
              count, classes);
    each_vector(kFloats, count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      if (y) {
        columns(lanes, split, block + i, block + i, logs ? logs + i : nullptr);
      } else {
        log_sums(lanes, classes, kRows, block + i, logs + i);
      }
    });
    if (y) transpose<uint32_t>(bits(block), kRows, bits(y + p * classes), classes, classes, count);
  }
}

void forward(const AxisSplit& s, int64_t begin, int64_t end, const float* x, float* y,
             double* log_sum) {
  if (!y && !log_sum) return;
  if (s.inner == 1 && s.size <= kFewClasses) return few_classes(s.size, begin, end, x, y, log_sum);
  if (s.inner == 1) return rows(s.size, begin, end, x, y, log_sum);
  each_columns(s, begin, end, [&](int64_t at, int64_t number, auto lanes) CREMA_LANES_LAMBDA {
    columns(lanes, s, x + at, y ? y + at : nullptr, log_sum ? log_sum + number : nullptr);
  });
}

void backward(const AxisSplit& s, int64_t begin, int64_t end, const float* dy, const float* y,
              float* dx) {
  if (s.inner == 1) {
    for (int64_t at = begin * s.size; at < end * s.size; at += s.size) {
      row_gradient(s.size, dy + at, y + at, dx + at);
    }
    return;
  }
  each_columns(s, begin, end, [&](int64_t at, int64_t, auto lanes) CREMA_LANES_LAMBDA {
    columns_gradient(lanes, s, dy + at, y + at, dx + at);
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

}  // namespace

void softmax_positions(const AxisSplit& shape, int64_t begin, int64_t end, const float* x, float* y,
                       double* log_sum) {
  HWY_DYNAMIC_DISPATCH(forward)(shape, begin, end, x, y, log_sum);
}

void softmax_positions_gradient(const AxisSplit& shape, int64_t begin, int64_t end, const float* dy,
                                const float* y, float* dx) {
  HWY_DYNAMIC_DISPATCH(backward)(shape, begin, end, dy, y, dx);
}

}  // namespace crema
#endif
