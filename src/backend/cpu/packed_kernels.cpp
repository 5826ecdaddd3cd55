#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/packed_kernels.cpp"
#include "backend/cpu/packed_kernels.hpp"

#include <algorithm>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"
#include "core/functor.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

#include "backend/gelu_math.hpp"
#include "backend/relu_math.hpp"

constexpr int64_t kStepsOfLine = PackedTile::kStepsOfLine, kFloatsOfLine = 16;

template <int M, int N>
void tile(const PackedTile& t) {
  const Floats d;
  const int64_t width = lanes_of(d);
  V sums[M][N];
  const float* a[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    a[m] = t.a + std::min(m, t.rows - 1) * t.a_row;
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n)
      sums[m][n] = t.first != nullptr ? hn::LoadU(d, t.first + n * width) : hn::Zero(d);
  }
  const float* b = t.b;
  int64_t at = 0;
  const auto add_steps = [&](int64_t count) CREMA_LANES_LAMBDA {
    for (int64_t k = 0; k < count; ++k, ++at, b += N * width) {
      V factors[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) factors[n] = hn::LoadU(d, b + n * width);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const V one = hn::Set(d, a[m][at]);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) sums[m][n] = hn::MulAdd(one, factors[n], sums[m][n]);
      }
    }
  };
  // One line after the other: many at once would hold up the loads of this tile.
  const float* next = t.next;
  const int64_t fetching = std::min(t.next_lines, t.steps / kStepsOfLine);
  for (int64_t line = 0; line < fetching; ++line, next += kFloatsOfLine) {
    __builtin_prefetch(next, 0, 2);
    add_steps(kStepsOfLine);
  }
  add_steps(t.steps - fetching * kStepsOfLine);
  const FirstLanes last{t.last_lanes};
  const bool whole = last.n == width;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    if (m == t.rows) return;
    float* const c = t.c + m * t.c_row;
    const float* const added = (t.added != nullptr ? t.added + m * t.added_row : nullptr);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const bool part = n + 1 == N && !whole;
      float* const to = c + n * width;
      V v = sums[m][n];
      if (t.added != nullptr) {
        const float* const from = added + n * width;
        v = hn::Add(v, part ? load(d, last, from) : hn::LoadU(d, from));
      }
      if (part) {
        store(d, last, v, to);
      } else {
        hn::StoreU(v, d, to);
      }
    }
  }
}

template <class Activation>
HWY_INLINE void finish_rows(const PackedEnd& part, const Activation& activation) {
  const Floats d;
  const float *const bias = part.end.bias, *summand = part.end.summand;
  float* c = part.c;
  for (int64_t r = 0; r < part.rows; ++r, c += part.c_row) {
    each_vector(d, part.columns, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      V v = load(d, lanes, c + i);
      if (bias != nullptr) v = hn::Add(v, load(d, lanes, bias + i));
      v = activation(Value<Floats>(v)).raw;
      if (summand != nullptr) v = hn::Add(v, load(d, lanes, summand + i));
      store(d, lanes, v, c + i);
    });
    if (summand != nullptr) summand += part.summand_row;
  }
}

HWY_FLATTEN void finish(const PackedEnd& given) {
  using Activation = ProductEnd::Activation;
  const PackedEnd part = given;  // on the stack: stores cannot change it
  switch (part.end.activation) {
    case Activation::none:
      return finish_rows(part, [](Value<Floats> x) CREMA_LANES_LAMBDA { return x; });
    case Activation::relu: {
      const ReLUMath math{part.end.slope};
      return finish_rows(part, [&](Value<Floats> x) CREMA_LANES_LAMBDA { return math.forward(x); });
    }
    case Activation::gelu:
      return finish_rows(
          part, [](Value<Floats> x) CREMA_LANES_LAMBDA { return GELUMath{false}.forward(x); });
    case Activation::gelu_by_tanh:
      return finish_rows(
          part, [](Value<Floats> x) CREMA_LANES_LAMBDA { return GELUMath{true}.forward(x); });
  }
}

// As many sums as registers hold, beside the vectors of b and a factor.
#if HWY_TARGET == HWY_AVX3
constexpr PackedKernels kKernels = {16,
                                    3,
                                    8,
                                    {nullptr, tile<8, 1>, tile<8, 2>, tile<8, 3>},
                                    {nullptr, tile<4, 1>, tile<4, 2>, tile<4, 3>},
                                    finish};
#else
constexpr PackedKernels kKernels = {hn::MaxLanes(Floats()),
                                    2,
                                    6,
                                    {nullptr, tile<6, 1>, tile<6, 2>, nullptr},
                                    {nullptr, tile<3, 1>, tile<3, 2>, nullptr},
                                    finish};
#endif

const PackedKernels* table() { return &kKernels; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(table);
}  // namespace

const PackedKernels& packed_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace crema
#endif  // HWY_ONCE
