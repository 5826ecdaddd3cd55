#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/locally_connected/local_kernels.cpp"
#include "layers/locally_connected/local_kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/float_kernels.hpp"
#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;

/// From position i of a row of weights to what is fetched then: further on, or in the tile that
/// follows. More rows are read in turn than processors foresee.
template <class T>
HWY_INLINE int64_t ahead_of(const LocalTile<T>& t, int64_t i) {
  constexpr int64_t kAhead = 256 / sizeof(T);
  return i + kAhead < t.positions ? kAhead : t.next + kAhead - t.positions;
}

/// Outputs whose sums for 8 samples fit into the registers.
constexpr int kOutputs = CREMA_HAS_32_REGISTERS ? 2 : 1;

template <int N, int O, class T, class Lanes>
HWY_INLINE void forward(const LocalTile<T>& t, int64_t first, int64_t i, Lanes lanes) {
  const Tag<T> d;
  T* const top = t.top + first * t.top_output + i;
  hn::Vec<Tag<T>> sums[O][N];
#pragma GCC unroll 2
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      sums[o][n] = load(d, lanes, top + n * t.top_sample + o * t.top_output);
    }
  }
  const T *weights = t.weights + first * t.weights_output + i, *columns = t.columns + i;
  const int64_t ahead = ahead_of(t, i);
  for (int64_t k = 0; k < t.taps; ++k, weights += t.weights_tap, columns += N * t.room) {
    hn::Vec<Tag<T>> w[O];
#pragma GCC unroll 2
    for (int o = 0; o < O; ++o) {
      __builtin_prefetch(weights + o * t.weights_output + ahead);
      w[o] = load(d, lanes, weights + o * t.weights_output);
    }
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const auto x = hn::LoadU(d, columns + n * t.room);
#pragma GCC unroll 2
      for (int o = 0; o < O; ++o) sums[o][n] = hn::MulAdd(w[o], x, sums[o][n]);
    }
  }
#pragma GCC unroll 2
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      store(d, lanes, sums[o][n], top + n * t.top_sample + o * t.top_output);
    }
  }
}

template <int N, int O, class T, class Lanes>
HWY_INLINE void weights(const LocalTile<T>& t, bool adds, int64_t i, Lanes lanes) {
  const Tag<T> d;
  hn::Vec<Tag<T>> dy[O][N];
#pragma GCC unroll 2
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      dy[o][n] = load(d, lanes, t.top + n * t.top_sample + o * t.top_output + i);
    }
  }
  T* to = t.weights + i;
  const T* columns = t.columns + i;
  const int64_t ahead = ahead_of(t, i);
  for (int64_t k = 0; k < t.taps; ++k, to += t.weights_tap, columns += N * t.room) {
    hn::Vec<Tag<T>> sums[O];
#pragma GCC unroll 2
    for (int o = 0; o < O; ++o) {
      __builtin_prefetch(to + o * t.weights_output + ahead);
      sums[o] = adds ? load(d, lanes, to + o * t.weights_output) : hn::Zero(d);
    }
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const auto x = hn::LoadU(d, columns + n * t.room);
#pragma GCC unroll 2
      for (int o = 0; o < O; ++o) sums[o] = hn::MulAdd(dy[o][n], x, sums[o]);
    }
#pragma GCC unroll 2
    for (int o = 0; o < O; ++o) store(d, lanes, sums[o], to + o * t.weights_output);
  }
}

/// A column at a time is summed over all outputs: it is written once.
template <int N, class T, class Lanes>
HWY_INLINE void columns(const LocalTile<T>& t, bool adds, int64_t i, Lanes lanes) {
  const Tag<T> d;
  hn::Vec<Tag<T>> dy[kLocalSums][N];
  for (int64_t o = 0; o < t.outputs; ++o) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      dy[o][n] = load(d, lanes, t.top + n * t.top_sample + o * t.top_output + i);
    }
  }
  T* to = t.columns + i;
  for (int64_t k = 0; k < t.taps; ++k, to += N * t.room) {
    hn::Vec<Tag<T>> sums[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[n] = adds ? hn::LoadU(d, to + n * t.room) : hn::Zero(d);
    const T* from = t.weights + k * t.weights_tap + i;
    for (int64_t o = 0; o < t.outputs; ++o, from += t.weights_output) {
      const auto w = load(d, lanes, from);
      __builtin_prefetch(from + 128 / sizeof(T));  // two vectors on, or more
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[n] = hn::MulAdd(w, dy[o][n], sums[n]);
    }
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) hn::StoreU(sums[n], d, to + n * t.room);
  }
}

/// Calls body(samples), as a constant.
template <class T, class Body>
HWY_INLINE void with_samples(const LocalTile<T>& t, const Body& body) {
  if (t.samples == 8) return body(std::integral_constant<int, 8>());
  if (t.samples == 4) return body(std::integral_constant<int, 4>());
  if (t.samples == 2) return body(std::integral_constant<int, 2>());
  body(std::integral_constant<int, 1>());
}
/// Calls body(samples, outputs), both as constants.
template <class T, class Body>
HWY_INLINE void with_sizes(const LocalTile<T>& t, const Body& body) {
  with_samples(t, [&](auto samples) CREMA_LANES_LAMBDA {
    if (t.outputs == 2) return body(samples, std::integral_constant<int, 2>());
    body(samples, std::integral_constant<int, 1>());
  });
}

template <class T>
HWY_FLATTEN void forward_tile(const LocalTile<T>& given) {
  const LocalTile<T> t = given;
  with_sizes(t, [&](auto n, auto o) CREMA_LANES_LAMBDA {
    constexpr int kTogether = std::min(o.value, kOutputs);
    each_vector(Tag<T>(), t.positions, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      for (int first = 0; first < o.value; first += kTogether)
        forward<n.value, kTogether>(t, first, i, lanes);
    });
  });
}
template <class T>
HWY_FLATTEN void weights_tile(const LocalTile<T>& given, bool adds) {
  const LocalTile<T> t = given;
  with_sizes(t, [&](auto n, auto o) CREMA_LANES_LAMBDA {
    each_vector(Tag<T>(), t.positions, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      weights<n.value, o.value>(t, adds, i, lanes);
    });
  });
}
template <class T>
HWY_FLATTEN void columns_tile(const LocalTile<T>& given, bool adds) {
  const LocalTile<T> t = given;
  with_samples(t, [&](auto n) CREMA_LANES_LAMBDA {
    each_vector(Tag<T>(), t.positions, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      columns<n.value>(t, adds, i, lanes);
    });
  });
}

template <class T>
constexpr LocalKernels<T> kKernels = {forward_tile<T>, weights_tile<T>, columns_tile<T>};

const LocalKernels<float>* kernels_f32() { return &kKernels<float>; }
const LocalKernels<double>* kernels_f64() { return CREMA_KERNELS_F64(kKernels); }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
CREMA_FLOAT_KERNELS(LocalKernels, local_kernels);
}  // namespace crema
#endif  // HWY_ONCE
