#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/direct_kernels.cpp"
#include "backend/cpu/direct_kernels.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

template <int N>
HWY_INLINE void write(const DirectTile& t, int m, const V (&sums)[N]) {
  const Floats d;
  const int64_t width = lanes_of(d);
  const FirstLanes last{t.last_lanes};
  const bool whole = last.n == width;
  const bool leaks = t.slope != 0.0F;  // slope 0 is no factor: -inf becomes 0, NaN stays
  const auto zero = hn::Zero(d);
  float* out = t.out[m];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n, out += t.out_vector) {
    const bool part = n + 1 == N && !whole;
    V v = sums[n];
    if (t.bias != nullptr) v = hn::Add(v, hn::LoadU(d, t.bias + n * width));
    if (t.adds) v = hn::Add(v, part ? load(d, last, out) : hn::LoadU(d, out));
    if (t.relu) {
      v = hn::IfThenElse(hn::Lt(v, zero), leaks ? hn::Mul(v, hn::Set(d, t.slope)) : zero, v);
    }
    if (part) {
      store(d, last, v, out);
    } else {
      hn::StoreU(v, d, out);
    }
  }
}

template <int M, int N>
void tile(const DirectTile& t) {
  const Floats d;
  const int64_t width = lanes_of(d);
  V sums[M][N];
  const float* a[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    a[m] = t.a[m];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sums[m][n] = hn::Zero(d);
  }
  const float* b = t.b;
  const int64_t length = t.length, step = t.step;
  for (int64_t run = 0; run < t.runs; ++run) {
    int64_t at = t.offsets[run];
    for (int64_t i = 0; i < length; ++i, at += step, b += N * width) {
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
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    if (m == t.rows) return;
    write<N>(t, m, sums[m]);
  }
}

template <class Lanes>
HWY_INLINE void pack_pixels(Lanes lanes, const float* from, int64_t from_step, int64_t pixels,
                            float* to, int64_t to_step, float* sums) {
  const Floats d;
  auto sum = hn::LoadU(d, sums);
  for (int64_t p = 0; p < pixels; ++p, from += from_step, to += to_step) {
    const auto v = load(d, lanes, from);
    hn::StoreU(v, d, to);
    sum = hn::Add(sum, v);
  }
  hn::StoreU(sum, d, sums);
}

void pack(const float* from, int64_t from_step, int64_t pixels, int lanes, float* to,
          int64_t to_step, float* sums) {
  if (lanes == lanes_of(Floats())) {
    pack_pixels(AllLanes(), from, from_step, pixels, to, to_step, sums);
  } else {
    pack_pixels(FirstLanes{lanes}, from, from_step, pixels, to, to_step, sums);
  }
}

// As many sums as registers hold, and no more base pointers than there are registers for them. For
// NEON, GCC 12 keeps 8 x 3 sums partly in memory.
#if HWY_ARCH_ARM_A64
constexpr DirectKernels kKernels = {hn::MaxLanes(Floats()),
                                    {0, 8, 8, 6, 6},
                                    {nullptr, tile<8, 1>, tile<8, 2>, tile<6, 3>, tile<6, 4>},
                                    {nullptr, tile<4, 1>, tile<4, 2>, tile<3, 3>, tile<3, 4>},
                                    pack};
#elif HWY_TARGET == HWY_AVX3
constexpr DirectKernels kKernels = {16,
                                    {0, 8, 8, 8, 6},
                                    {nullptr, tile<8, 1>, tile<8, 2>, tile<8, 3>, tile<6, 4>},
                                    {nullptr, tile<4, 1>, tile<4, 2>, tile<4, 3>, tile<3, 4>},
                                    pack};
#else
constexpr DirectKernels kKernels = {hn::MaxLanes(Floats()),
                                    {0, 8, 6, 4, 0},
                                    {nullptr, tile<8, 1>, tile<6, 2>, tile<4, 3>, nullptr},
                                    {nullptr, tile<4, 1>, tile<3, 2>, tile<2, 3>, nullptr},
                                    pack};
#endif

const DirectKernels* table() { return &kKernels; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(table);
}  // namespace

const DirectKernels& direct_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace crema
#endif  // HWY_ONCE
