#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/im2col_kernels.cpp"
#include "backend/cpu/im2col_kernels.hpp"

#include <algorithm>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

// The sums of a product stay in registers: 32 of them with AVX-512 and NEON, else 16.
#if CREMA_HAS_32_REGISTERS
constexpr int kRows = 6, kVectors = 4;
#else
constexpr int kRows = 4, kVectors = 3;
#endif

/// Elements of a row that are added up in f32 before they go to the double.
constexpr int64_t kFloatRun = 256;

using Wide = hn::ScalableTag<float>;

/// Copies adjacent elements: a vector of a run at a time, of all rows. Lanes behind the end of a
/// run are overwritten by the next run; those of the last run stay within the row.
template <class D>
HWY_INLINE void gather_adjacent(D d, const GatheredRows& rows, const float* image, float* matrix) {
  const int64_t width = lanes_of(d);
  for (int64_t s = 0; s < rows.run_count; ++s) {
    const GatheredRun& run = rows.runs[s];
    for (int64_t i = 0; i < run.count; i += width) {
      const float* const from = image + run.from + i;
      const FirstLanes part{run.count - i};
      float* to = matrix + run.to + i;
      if (run.to + i + width <= rows.row) {
        for (int64_t r = 0; r < rows.rows; ++r, to += rows.row) {
          hn::StoreU(hn::LoadU(d, from + rows.origins[r]), d, to);
        }
      } else {
        for (int64_t r = 0; r < rows.rows; ++r, to += rows.row) {
          store(d, part, hn::LoadU(d, from + rows.origins[r]), to);
        }
      }
    }
  }
}

void gather(const GatheredRows& rows, const float* image, float* matrix) {
  if (rows.step == 1) {
    int64_t longest = 0;
    for (int64_t s = 0; s < rows.run_count; ++s) longest = std::max(longest, rows.runs[s].count);
    if (longest <= 4) return gather_adjacent(hn::CappedTag<float, 4>(), rows, image, matrix);
    if (longest <= 8) return gather_adjacent(hn::CappedTag<float, 8>(), rows, image, matrix);
    return gather_adjacent(Wide(), rows, image, matrix);
  }
  const Wide d;
  const int64_t width = lanes_of(d);
  for (int64_t r = 0; r < rows.rows; ++r, matrix += rows.row) {
    const float* const origin = image + rows.origins[r];
    for (int64_t s = 0; s < rows.run_count; ++s) {
      const GatheredRun& run = rows.runs[s];
      const float* const from = origin + run.from;
      float* const to = matrix + run.to;
      int64_t i = 0;
      if (rows.step == 2) {
        for (; i + width <= run.count; i += width) {
          hn::Vec<Wide> even, odd;
          hn::LoadInterleaved2(d, from + 2 * i, even, odd);
          hn::StoreU(even, d, to + i);
        }
      }
      for (; i < run.count; ++i) to[i] = from[i * rows.step];
    }
  }
}

/// Adds adjacent elements: a vector of a run at a time, of all rows. Rows that follow each other
/// add to places that overlap; a load of what was just stored in part is slow. So `apart` times,
/// each of those rows is taken.
template <class D>
HWY_INLINE void scatter_adjacent(D d, const GatheredRows& rows, const float* matrix, float* image) {
  const int64_t width = lanes_of(d), row = rows.row * rows.apart;
  for (int64_t s = 0; s < rows.run_count; ++s) {
    const GatheredRun& run = rows.runs[s];
    for (int64_t i = 0; i < run.count; i += width) {
      float* const to = image + run.from + i;
      const FirstLanes part{run.count - i};
      for (int64_t first = 0; first < std::min(rows.apart, rows.rows); ++first) {
        const float* from = matrix + first * rows.row + run.to + i;
        if (part.n >= width) {
          for (int64_t r = first; r < rows.rows; r += rows.apart, from += row) {
            float* const at = to + rows.origins[r];
            hn::StoreU(hn::Add(hn::LoadU(d, at), hn::LoadU(d, from)), d, at);
          }
        } else {
          for (int64_t r = first; r < rows.rows; r += rows.apart, from += row) {
            float* const at = to + rows.origins[r];
            store(d, part, hn::Add(load(d, part, at), load(d, part, from)), at);
          }
        }
      }
    }
  }
}

void scatter(const GatheredRows& rows, const float* matrix, float* image) {
  if (rows.step == 1) {
    int64_t longest = 0;
    for (int64_t s = 0; s < rows.run_count; ++s) longest = std::max(longest, rows.runs[s].count);
    if (longest <= 8) return scatter_adjacent(hn::CappedTag<float, 8>(), rows, matrix, image);
    return scatter_adjacent(Wide(), rows, matrix, image);
  }
  for (int64_t r = 0; r < rows.rows; ++r, matrix += rows.row) {
    float* const origin = image + rows.origins[r];
    for (int64_t s = 0; s < rows.run_count; ++s) {
      const GatheredRun& run = rows.runs[s];
      const float* const from = matrix + run.to;
      float* const to = origin + run.from;
      for (int64_t i = 0; i < run.count; ++i) to[i * rows.step] += from[i];
    }
  }
}

/// M rows of N vectors of a product.
template <int M, int N>
HWY_INLINE void tile(const PanelProduct& p, int64_t row) {
  const Wide d;
  const int64_t width = lanes_of(d), out_row = p.out_row;
  const float* const bias = p.bias != nullptr ? p.bias + row : nullptr;
  float* const out = p.out + row * out_row;
  const FirstLanes last{p.lanes - (N - 1) * width};
  const bool whole = last.n == width;
  hn::Vec<Wide> sums[M][N];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    const auto first = bias != nullptr ? hn::Set(d, bias[m]) : hn::Zero(d);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sums[m][n] = first;
  }
  const float* a[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) a[m] = p.a + p.a_rows[row + m];
  const int64_t *const a_steps = p.a_steps, *const b_steps = p.b_steps;
  for (int64_t i = 0; i < p.length; ++i) {
    const int64_t step = a_steps[i];
    const float* const b = p.b + b_steps[i];
    hn::Vec<Wide> factors[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) factors[n] = hn::LoadU(d, b + n * width);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const auto one = hn::Set(d, a[m][step]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sums[m][n] = hn::MulAdd(one, factors[n], sums[m][n]);
    }
  }
  if (p.adds) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const float* const from = out + m * out_row;
#pragma GCC unroll 4
      for (int n = 0; n + 1 < N; ++n) {
        sums[m][n] = hn::Add(sums[m][n], hn::LoadU(d, from + n * width));
      }
      const float* const end = from + (N - 1) * width;
      sums[m][N - 1] = hn::Add(sums[m][N - 1], whole ? hn::LoadU(d, end) : load(d, last, end));
    }
  }
  if (p.relu) {
    const auto zero = hn::Zero(d), slope = hn::Set(d, p.slope);
    const bool leaks = p.slope != 0.0F;  // slope 0 is no factor: -inf becomes 0, NaN stays
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const auto v = sums[m][n];
        sums[m][n] = hn::IfThenElse(hn::Lt(v, zero), leaks ? hn::Mul(v, slope) : zero, v);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    float* const to = out + m * out_row;
#pragma GCC unroll 4
    for (int n = 0; n + 1 < N; ++n) hn::StoreU(sums[m][n], d, to + n * width);
    if (whole) {
      hn::StoreU(sums[m][N - 1], d, to + (N - 1) * width);
    } else {
      store(d, last, sums[m][N - 1], to + (N - 1) * width);
    }
  }
}

template <int N, int M>
HWY_INLINE void rows_of(const PanelProduct& p, int64_t begin, int64_t end) {
  if (end - begin == M) {
    tile<M, N>(p, begin);
  } else if constexpr (M > 1) {
    rows_of<N, M - 1>(p, begin, end);
  }
}

template <int N>
void panel(const PanelProduct& p) {
  const int64_t tiles = (p.rows + kRows - 1) / kRows;
  for (int64_t t = 0; t < tiles; ++t) {
    rows_of<N, kRows>(p, p.rows * t / tiles, p.rows * (t + 1) / tiles);
  }
}

void multiply(const PanelProduct& p) {
  const int64_t width = lanes_of(Wide());
  switch ((p.lanes + width - 1) / width) {
    case 1:
      return panel<1>(p);
    case 2:
      return panel<2>(p);
    case 3:
      return panel<3>(p);
    default:
      return panel<kVectors>(p);
  }
}

void row_sums(const float* matrix, int64_t rows, int64_t count, double* sums) {
  const Wide d;
  const int64_t width = lanes_of(d);
  for (int64_t r = 0; r < rows; ++r, matrix += count) {
    for (int64_t begin = 0; begin < count; begin += kFloatRun) {
      const int64_t end = std::min(begin + kFloatRun, count);
      auto even = hn::Zero(d), odd = hn::Zero(d);
      int64_t i = begin;
      for (; i + 2 * width <= end; i += 2 * width) {
        even = hn::Add(even, hn::LoadU(d, matrix + i));
        odd = hn::Add(odd, hn::LoadU(d, matrix + i + width));
      }
      float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
      for (; i < end; ++i) sum += matrix[i];
      sums[r] += static_cast<double>(sum);
    }
  }
}

constexpr int64_t kWidth = hn::MaxLanes(Wide());
constexpr Im2colKernels kKernels = {kWidth, kVectors* kWidth, gather, scatter, multiply, row_sums};

const Im2colKernels* table() { return &kKernels; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(table);
}  // namespace

const Im2colKernels& im2col_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace crema
#endif  // HWY_ONCE
