#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/thin_kernels.cpp"
#include "backend/cpu/thin_kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;
constexpr int64_t kWidth = hn::MaxLanes(Floats());

// The sums, or the values, of a tile of two vectors stay in registers: 32 of them with AVX-512 and
// NEON, else 16. More than 8 rows are slower where the rows of the matrix share a set of the cache.
#if CREMA_HAS_32_REGISTERS
constexpr int64_t kRows = 8;
#else
constexpr int64_t kRows = 6;
#endif

/// Where prefetches bring what is needed later, by measurement.
constexpr int kFirstLevel = 3, kSecondLevel = 2;

template <int N>
using Vectors = std::integral_constant<int, N>;

/// Calls body(Vectors<N>, c, lanes) for strips of N vectors from element c on; `lanes` are those of
/// the last vector of the strip.
template <class Body>
HWY_INLINE void each_strip(int64_t count, const Body& body) {
  int64_t c = 0;
  for (; c + 2 * kWidth <= count; c += 2 * kWidth) body(Vectors<2>(), c, AllLanes());
  if (c + kWidth < count) return body(Vectors<2>(), c, FirstLanes{count - c - kWidth});
  if (c < count) body(Vectors<1>(), c, FirstLanes{count - c});
}

void pack_rows(const float* from, int64_t stride, int64_t batch, int64_t columns, float* to) {
  for (int64_t c = 0; c < columns; c += kRows) {
    const int64_t there = std::min(kRows, columns - c);
    for (int64_t b = 0; b < batch; ++b, to += kRows) {
      const float* const row = from + b * stride + c;
      if (there == kRows) {
        std::copy_n(row, kRows, to);
      } else {
        std::fill_n(std::copy_n(row, there, to), kRows - there, 0.0F);
      }
    }
  }
}

void pack_columns(const float* from, int64_t stride, int64_t batch, int64_t columns, float* to) {
  each_strip(columns, [&](auto vectors, int64_t c, auto lanes) CREMA_LANES_LAMBDA {
    constexpr int N = vectors;
    const Floats d;
    const float* row = from + c;
    float* out = to + c * batch;
    for (int64_t b = 0; b < batch; ++b, row += stride, out += N * kWidth) {
      if constexpr (N == 2) hn::StoreU(hn::LoadU(d, row), d, out);
      hn::StoreU(load(d, lanes, row + (N - 1) * kWidth), d, out + (N - 1) * kWidth);
    }
  });
}

/// Fetches the tile below this one.
template <int N, int Level>
HWY_INLINE void fetch_next_tile(const float* tile, int64_t stride) {
#pragma GCC unroll 8
  for (int r = kRows; r < 2 * kRows; ++r) {
    for (int64_t c = 0; c < N * kWidth; c += kThinLine) {
      __builtin_prefetch(tile + r * stride + c, 0, Level);
    }
  }
}

/// sums (row, N vectors) = sum over steps i of left(row, i) * right (step, N vectors). Calls
/// fetch(i) before each step i that is a multiple of kThinLine.
template <int N, class Left, class Fetch>
HWY_INLINE void multiply(const Left& left, const float* right, int64_t steps, const Fetch& fetch,
                         V (&sums)[kRows][N]) {
  const Floats d;
  // A single vector has two sums, of even and of odd steps: more additions are on their way.
  constexpr int kSums = 3 - N;
  V sum[kSums][kRows][N];
#pragma GCC unroll 2
  for (auto& each : sum) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) each[r][n] = hn::Zero(d);
    }
  }
  const auto add = [&](int64_t i, V(&to)[kRows][N]) CREMA_LANES_LAMBDA {
    V factors[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) factors[n] = hn::LoadU(d, right + (i * N + n) * kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V value = hn::Set(d, left(r, i));
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) to[r][n] = hn::MulAdd(value, factors[n], to[r][n]);
    }
  };
  int64_t i = 0;
  for (; i + 2 <= steps; i += 2) {
    if (i % kThinLine == 0) fetch(i);
    add(i, sum[0]);
    add(i + 1, sum[kSums - 1]);
  }
  if (i < steps) add(i, sum[0]);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      sums[r][n] = kSums == 1 ? sum[0][r][n] : hn::Add(sum[0][r][n], sum[kSums - 1][r][n]);
    }
  }
}

void dots(const ThinPart& p, const float* a, const float* matrix, bool adds, float* sums) {
  const int64_t sums_row = (p.batch + kWidth - 1) / kWidth * kWidth;
  for (int64_t first = 0; first < p.rows; first += kRows, sums += kRows * sums_row) {
    // Where rows are missing, the last one stands for them.
    const float* rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = matrix + std::min(first + r, p.rows - 1) * p.stride;
    const bool more = first + 2 * kRows <= p.rows;
    each_strip(p.batch, [&](auto vectors, int64_t c, auto) CREMA_LANES_LAMBDA {
      constexpr int N = vectors;
      const Floats d;
      V sum[kRows][N];
      const bool fetches = more && c == 0;
      multiply<N>([&](int r, int64_t i) CREMA_LANES_LAMBDA { return rows[r][i]; },
                  a + c * p.columns, p.columns,
                  [&](int64_t i) CREMA_LANES_LAMBDA {
                    if (!fetches) return;
#pragma GCC unroll 8
                    for (int r = 0; r < kRows; ++r)
                      __builtin_prefetch(rows[r] + kRows * p.stride + i, 0, kSecondLevel);
                  },
                  sum);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) {
          float* const to = sums + r * sums_row + c + n * kWidth;
          hn::StoreU(adds ? hn::Add(sum[r][n], hn::LoadU(d, to)) : sum[r][n], d, to);
        }
      }
    });
  }
}

template <int B>
void few_dots(const ThinPart& p, const float* a, const float* matrix, float* out,
              int64_t out_stride) {
  // R rows and U runs of columns at once: enough independent sums to hide the latency of an
  // addition, and few enough for the registers.
  constexpr int kMost = CREMA_HAS_32_REGISTERS ? 16 : 10;
  constexpr int R = 4 * B <= kMost ? 4 : 2, U = B == 1 ? 2 : 1;
  static_assert(ThinKernels::kFewRows % R == 0);
  const Floats d;
  for (int64_t first = 0; first < p.rows; first += R) {
    // Where rows are missing, the last one stands for them.
    const float* rows[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) rows[r] = matrix + std::min(first + r, p.rows - 1) * p.stride;
    V sums[U][R][B];
#pragma GCC unroll 2
    for (auto& each : sums) {
#pragma GCC unroll 4
      for (auto& row : each) {
#pragma GCC unroll 4
        for (V& sum : row) sum = hn::Zero(d);
      }
    }
    const auto add = [&](auto lanes, int64_t c, V(&to)[R][B]) CREMA_LANES_LAMBDA {
      V w[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) w[r] = load(d, lanes, rows[r] + c);
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) {
        const V v = load(d, lanes, a + b * p.stride + c);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) to[r][b] = hn::MulAdd(w[r], v, to[r][b]);
      }
    };
    int64_t c = 0;
    for (; c + U * kWidth <= p.columns; c += U * kWidth) {
      add(AllLanes(), c, sums[0]);
      if constexpr (U == 2) add(AllLanes(), c + kWidth, sums[U - 1]);
    }
    for (; c + kWidth <= p.columns; c += kWidth) add(AllLanes(), c, sums[0]);
    if (c < p.columns) add(FirstLanes{p.columns - c}, c, sums[0]);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      if (first + r >= p.rows) return;
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) {
        const V sum = U == 1 ? sums[0][r][b] : hn::Add(sums[0][r][b], sums[U - 1][r][b]);
        out[b * out_stride + first + r] = hn::GetLane(hn::SumOfLanes(d, sum));
      }
    }
  }
}

void add_rows(const ThinPart& p, const float* a, const float* matrix, float* all_sums) {
  for (int64_t left = p.rows; left > 0; left -= kRows) {
    each_strip(p.columns, [&](auto vectors, int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      constexpr int N = vectors;
      const Floats d;
      const float* const tile = matrix + c;
      if (left >= 2 * kRows) fetch_next_tile<N, kFirstLevel>(tile, p.stride);
      V values[kRows][N];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* const row = tile + r * p.stride;
        const bool there = r < left;
        if constexpr (N == 2) values[r][0] = there ? hn::LoadU(d, row) : hn::Zero(d);
        values[r][N - 1] = there ? load(d, lanes, row + (N - 1) * kWidth) : hn::Zero(d);
      }
      // Even and odd rows are added apart where registers are left: more additions are on their
      // way.
      constexpr int kSums = kRows == 8 ? 2 : 1;
      const float* factors = a;
      float* sums = all_sums + c * p.batch;
      for (int64_t b = 0; b < p.batch; ++b, factors += kRows, sums += N * kWidth) {
        V sum[2][N];
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) {
          sum[0][n] = hn::LoadU(d, sums + n * kWidth);
          sum[1][n] = hn::Zero(d);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const V factor = hn::Set(d, factors[r]);
#pragma GCC unroll 2
          for (int n = 0; n < N; ++n) {
            V& to = sum[r % kSums][n];
            to = hn::MulAdd(factor, values[r][n], to);
          }
        }
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) {
          const V total = kSums == 1 ? sum[0][n] : hn::Add(sum[0][n], sum[1][n]);
          hn::StoreU(total, d, sums + n * kWidth);
        }
      }
    });
    a += kRows * p.batch;
    matrix += kRows * p.stride;
  }
}

void outer(const ThinPart& p, const float* a, const float* b, float beta, float* matrix) {
  for (int64_t left = p.rows; left > 0; left -= kRows) {
    each_strip(p.columns, [&](auto vectors, int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      constexpr int N = vectors;
      const Floats d;
      float* const tile = matrix + c;
      if (left >= 2 * kRows) fetch_next_tile<N, kSecondLevel>(tile, p.stride);
      V sums[kRows][N];
      multiply<N>([&](int r, int64_t i) CREMA_LANES_LAMBDA { return a[i * kRows + r]; },
                  b + c * p.batch, p.batch, [](int64_t) {}, sums);
      // Ordinary stores: those that bypass the cache took half as long again.
      const V scale = hn::Set(d, beta);
      const auto write = [&](auto which, V sum, float* to) CREMA_LANES_LAMBDA {
        store(d, which, beta == 0 ? sum : hn::MulAdd(scale, load(d, which, to), sum), to);
      };
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        if (r == left) return;
        float* const row = tile + r * p.stride;
        if constexpr (N == 2) write(AllLanes(), sums[r][0], row);
        write(lanes, sums[r][N - 1], row + (N - 1) * kWidth);
      }
    });
    a += kRows * p.batch;
    matrix += kRows * p.stride;
  }
}

constexpr ThinKernels kKernels = {
    kRows,        kWidth, pack_rows,
    pack_columns, dots,   {nullptr, few_dots<1>, few_dots<2>, few_dots<3>, few_dots<4>},
    add_rows,     outer};

const ThinKernels* table() { return &kKernels; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(table);
}  // namespace

const ThinKernels& thin_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace crema
#endif  // HWY_ONCE
