// Sums are in f32 by the lanes of four vectors, and in f64 where those end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layer_support/row_norm_kernels.cpp"
#include "layer_support/row_norm_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

/// Elements for which lanes add up in f32.
constexpr int64_t kChunk = 4096;
constexpr int kSums = 4;

/// Two sums of a row.
struct RowSums {
  double first = 0, second = 0;
};

/// body(i, lanes, first, second) adds what belongs to the elements from i on to two vectors.
template <class Body>
HWY_INLINE RowSums sum_row(int64_t n, const Body& body) {
  const Floats d;
  const int64_t width = lanes_of(d);
  RowSums sums;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = std::min(n, begin + kChunk);
    V first[kSums], second[kSums];
#pragma GCC unroll 4
    for (int k = 0; k < kSums; ++k) first[k] = second[k] = hn::Zero(d);
    int64_t i = begin;
    for (; i + kSums * width <= end; i += kSums * width) {
#pragma GCC unroll 4
      for (int k = 0; k < kSums; ++k) body(i + k * width, AllLanes{}, first[k], second[k]);
    }
    for (; i + width <= end; i += width) body(i, AllLanes{}, first[0], second[0]);
    if (i < end) body(i, FirstLanes{end - i}, first[1], second[1]);
    const auto total = [&](const V(&of)[kSums]) CREMA_LANES_LAMBDA {
      return static_cast<double>(
          hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(of[0], of[1]), hn::Add(of[2], of[3])))));
    };
    sums.first += total(first);
    sums.second += total(second);
  }
  return sums;
}

/// v in the lanes that stand for elements, else 0.
HWY_INLINE V present(AllLanes, V v) { return v; }
HWY_INLINE V present(FirstLanes lanes, V v) {
  return hn::IfThenElseZero(hn::FirstN(Floats(), static_cast<size_t>(lanes.n)), v);
}

HWY_FLATTEN void forward(int64_t n, const float* x, double eps, const float* scale,
                         const float* bias, float* y, row_norm::Moments* moments) {
  const Floats d;
  const auto count = static_cast<double>(n);
  // The first value is near the mean unless the row is made of outliers; sums of the differences
  // lose fewer digits than sums of values far from 0.
  const auto origin = hn::Set(d, x[0]);
  const double rough = sum_row(n, [&](int64_t i, auto lanes, V& sum, V&) CREMA_LANES_LAMBDA {
                         sum = hn::Add(sum, present(lanes, hn::Sub(load(d, lanes, x + i), origin)));
                       }).first;
  const auto centre = static_cast<float>(static_cast<double>(x[0]) + rough / count);
  const auto middle = hn::Set(d, centre);
  const RowSums sums =
      sum_row(n, [&](int64_t i, auto lanes, V& sum, V& squares) CREMA_LANES_LAMBDA {
        const V v = present(lanes, hn::Sub(load(d, lanes, x + i), middle));
        sum = hn::Add(sum, v);
        squares = hn::MulAdd(v, v, squares);
      });
  const double error = sums.first / count, square = sums.second / count - error * error;
  // NaN stays.
  const double inverse = 1 / std::sqrt((square < 0 ? 0 : square) + eps);
  *moments = {static_cast<double>(centre) + error, inverse};
  const auto gain = hn::Set(d, static_cast<float>(inverse));
  const auto rest = hn::Set(d, static_cast<float>(-error * inverse));
  each_vector(d, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    V v = hn::MulAdd(hn::Sub(load(d, lanes, x + i), middle), gain, rest);
    if (scale != nullptr) v = hn::Mul(v, load(d, lanes, scale + i));
    if (bias != nullptr) v = hn::Add(v, load(d, lanes, bias + i));
    store(d, lanes, v, y + i);
  });
}

HWY_FLATTEN void backward(int64_t n, const float* x, const float* dy, const float* scale,
                          const row_norm::Moments* moments, float* dx, float* of_scale,
                          float* of_bias) {
  const Floats d;
  const auto count = static_cast<double>(n);
  const double inverse = moments->inverse_deviation;
  const auto centre = static_cast<float>(moments->mean);
  const double error = static_cast<double>(centre) - moments->mean;  // lost in rounding
  const auto middle = hn::Set(d, centre), gain = hn::Set(d, static_cast<float>(inverse));
  const auto rest = hn::Set(d, static_cast<float>(error * inverse));
  const RowSums sums =
      sum_row(n, [&](int64_t i, auto lanes, V& sum, V& products) CREMA_LANES_LAMBDA {
        const V g = load(d, lanes, dy + i), v = hn::Sub(load(d, lanes, x + i), middle);
        if (of_bias != nullptr)
          store(d, lanes, hn::Add(load(d, lanes, of_bias + i), g), of_bias + i);
        if (of_scale != nullptr) {
          const V normal = hn::MulAdd(v, gain, rest);
          store(d, lanes, hn::MulAdd(g, normal, load(d, lanes, of_scale + i)), of_scale + i);
        }
        // Lanes of dy that stand for nothing are 0.
        const V scaled = scale != nullptr ? hn::Mul(g, load(d, lanes, scale + i)) : g;
        sum = hn::Add(sum, scaled);
        products = hn::MulAdd(scaled, v, products);
      });
  if (dx == nullptr) return;
  const double product = sums.second + error * sums.first;
  const double by_x = inverse * inverse * inverse * product / count;
  const auto slope = hn::Set(d, static_cast<float>(by_x));
  const auto offset = hn::Set(d, static_cast<float>(inverse * sums.first / count + by_x * error));
  each_vector(d, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    V g = hn::Mul(load(d, lanes, dy + i), gain);
    if (scale != nullptr) g = hn::Mul(g, load(d, lanes, scale + i));
    const V v = hn::Sub(load(d, lanes, x + i), middle);
    store(d, lanes, hn::Sub(g, hn::MulAdd(v, slope, offset)), dx + i);
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema::row_norm {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

Moments normalize_row(int64_t n, const float* x, double eps, const float* scale, const float* bias,
                      float* y) {
  Moments moments{};
  HWY_DYNAMIC_DISPATCH(forward)(n, x, eps, scale, bias, y, &moments);
  return moments;
}

void normalize_row_backward(int64_t n, const float* x, const float* dy, const float* scale,
                            const Moments& moments, float* dx, float* of_scale, float* of_bias) {
  HWY_DYNAMIC_DISPATCH(backward)(n, x, dy, scale, &moments, dx, of_scale, of_bias);
}

}  // namespace crema::row_norm
#endif  // HWY_ONCE
