// The kernels of direct_kernels.hpp for vectors of W floats. Included by one file for each
// instruction set, which is compiled with that set's flags: everything is in an unnamed namespace,
// and nothing of the standard library but fixed-width integers is used, so no code of a wide set
// can end up elsewhere.
#pragma once

#include <stdint.h>

#include "backend/cpu/direct_kernels.hpp"

namespace crema {
namespace {

template <int W>
struct DirectVector;
template <>
struct DirectVector<8> {
  typedef float Type __attribute__((vector_size(32)));
  typedef float Unaligned __attribute__((vector_size(32), aligned(4), may_alias));
};
template <>
struct DirectVector<16> {
  typedef float Type __attribute__((vector_size(64)));
  typedef float Unaligned __attribute__((vector_size(64), aligned(4), may_alias));
};

template <int W>
struct DirectCode {
  using V = typename DirectVector<W>::Type;
  using Unaligned = typename DirectVector<W>::Unaligned;

  static V load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(float* p, V v) { *reinterpret_cast<Unaligned*>(p) = v; }

  template <int M, int N>
  static void tile(const DirectTile& t) {
    V sums[M][N] = {};
    const float* a[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) a[m] = t.a[m];
    const float* b = t.b;
    const int64_t length = t.length, step = t.step;
    for (int64_t run = 0; run < t.runs; ++run) {
      int64_t at = t.offsets[run];
      for (int64_t i = 0; i < length; ++i, at += step, b += N * W) {
        V factors[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) factors[n] = load(b + n * W);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
          const V one = a[m][at] - V{};
#pragma GCC unroll 4
          for (int n = 0; n < N; ++n) sums[m][n] += one * factors[n];
        }
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      if (m == t.rows) return;
      if (t.add) {
        add<N>(t.out[m], sums[m]);
      } else {
        write<N>(t, m, sums[m]);
      }
    }
  }

  template <int N>
  static __attribute__((always_inline)) inline void add(float* out, const V (&sums)[N]) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(out + n * W, load(out + n * W) + sums[n]);
  }

  template <int N>
  static __attribute__((always_inline)) inline void write(const DirectTile& t, int m,
                                                          const V (&sums)[N]) {
    V results[N];
    float* out = t.out[m];
    float last[W] = {};
    const bool whole = t.last_lanes == W;
    if (t.adds && !whole) {
      const float* const from = out + (N - 1) * t.out_vector;
      for (int lane = 0; lane < t.last_lanes; ++lane) last[lane] = from[lane];
    }
    const bool leaks = t.slope != 0.0F;  // slope 0 is no factor: -inf becomes 0, NaN stays
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      results[n] = sums[n];
      if (t.init != nullptr) results[n] += load(t.init + m * t.init_row + n * W);
      if (t.adds) results[n] += load(n + 1 < N || whole ? out + n * t.out_vector : last);
      if (t.relu) {
        const V low = leaks ? results[n] * t.slope : results[n] < 0.0F ? V{} : results[n];
        results[n] = results[n] > 0.0F ? results[n] : low;
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n + 1 < N; ++n, out += t.out_vector) store(out, results[n]);
    if (whole) {
      store(out, results[N - 1]);
    } else {
      store(last, results[N - 1]);
      for (int lane = 0; lane < t.last_lanes; ++lane) out[lane] = last[lane];
    }
  }

  static void pack(const float* from, int64_t from_step, int64_t pixels, int lanes, float* to,
                   int64_t to_step, float* sums) {
    V sum = load(sums);
    if (lanes == W) {
      for (int64_t p = 0; p < pixels; ++p, from += from_step, to += to_step) {
        const V v = load(from);
        store(to, v);
        sum += v;
      }
    } else {
      for (int64_t p = 0; p < pixels; ++p, from += from_step, to += to_step) {
        float lane_values[W] = {};
        for (int lane = 0; lane < lanes; ++lane) lane_values[lane] = from[lane];
        const V v = load(lane_values);
        store(to, v);
        sum += v;
      }
    }
    store(sums, sum);
  }

  static constexpr DirectKernels table() {
    // As many sums as registers hold, and no more base pointers than there are registers for them.
    if constexpr (W == 16) {
      return {W,
              {0, 8, 8, 8, 6},
              {nullptr, tile<8, 1>, tile<8, 2>, tile<8, 3>, tile<6, 4>},
              {nullptr, tile<4, 1>, tile<4, 2>, tile<4, 3>, tile<3, 4>},
              pack};
    } else {
      return {W,
              {0, 8, 6, 4, 0},
              {nullptr, tile<8, 1>, tile<6, 2>, tile<4, 3>, nullptr},
              {nullptr, tile<4, 1>, tile<3, 2>, tile<2, 3>, nullptr},
              pack};
    }
  }
};

}  // namespace
}  // namespace crema
