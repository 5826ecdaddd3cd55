#include "layer_support/resample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "layer_support/options.hpp"
#include "layer_support/resample_passes.hpp"
#include "layer_support/resize.hpp"

namespace crema {
namespace {

// Values of rows that a thread should have at least, some ten operations each.
constexpr int64_t kGrain = 4096;

/// The matrix with rows and columns exchanged; it has `sources` rows.
Taps transposed(const Taps& taps, int64_t sources) {
  Taps result;
  result.begins.assign(static_cast<size_t>(sources) + 1, 0);
  for (const int32_t source : taps.sources) ++result.begins[static_cast<size_t>(source) + 1];
  for (size_t i = 1; i < result.begins.size(); ++i) result.begins[i] += result.begins[i - 1];
  result.sources.resize(taps.sources.size());
  result.weights.resize(taps.sources.size());
  std::vector<int32_t> next(result.begins.begin(), result.begins.end() - 1);
  for (int64_t row = 0; row < taps.rows(); ++row) {
    const auto r = static_cast<size_t>(row);
    for (auto k = static_cast<size_t>(taps.begins[r]); k < static_cast<size_t>(taps.begins[r + 1]);
         ++k) {
      const auto at = static_cast<size_t>(next[static_cast<size_t>(taps.sources[k])]++);
      result.sources[at] = static_cast<int32_t>(row);
      result.weights[at] = taps.weights[k];
    }
  }
  return result;
}

/// Where value i of the resampled axis lies on the axis of `from` values.
double point_of(int64_t i, int64_t from, int64_t to, Sampling sampling) {
  const auto at = static_cast<double>(i), size = static_cast<double>(from);
  if (sampling == Sampling::edges) return (at + 0.5) * size / static_cast<double>(to) - 0.5;
  return to > 1 ? at * (size - 1) / static_cast<double>(to - 1) : 0;
}

template <class T>
[[gnu::always_inline]] inline void add_row(const T* from, T weight, bool first, int64_t count,
                                           T* to) {
  if (first) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] = weight * from[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] += weight * from[i];
  }
}

/// Single values: to[x] = the weighted sum of the values of a row.
template <int64_t kTaps, class T>
[[gnu::always_inline]] inline void pick(const int32_t* sources, const T* weights, const T* from,
                                        int64_t count, T* to) {
  for (int64_t x = 0; x < count; ++x) {
    T sum{0};
    for (int64_t k = 0; k < kTaps; ++k) {
      sum += weights[x * kTaps + k] * from[sources[x * kTaps + k]];
    }
    to[x] = sum;
  }
}

/// The number of taps if all rows have the same; else 0.
template <class T>
int64_t taps_of_each(const resample_detail::TapsView<T>& taps) {
  const int64_t each = taps.rows > 0 ? taps.begins[1] : 0;
  for (int64_t i = 0; i < taps.rows; ++i) {
    if (taps.begins[i + 1] - taps.begins[i] != each) return 0;
  }
  return each;
}

template <class T>
void resample_row(const resample_detail::Maps<T>& maps, int64_t taps_of_columns, const T* row,
                  T* to) {
  const resample_detail::TapsView<T>& w = maps.w;
  const int64_t inner = maps.inner;
  if (inner == 1) {
    switch (taps_of_columns) {
      case 1:
        return vectorized<pick<1, T>>(w.sources, w.weights, row, w.rows, to);
      case 2:
        return vectorized<pick<2, T>>(w.sources, w.weights, row, w.rows, to);
      case 4:
        return vectorized<pick<4, T>>(w.sources, w.weights, row, w.rows, to);
      default:
        break;
    }
  }
  for (int64_t x = 0; x < w.rows; ++x) {
    if (inner == 1) {
      T sum{0};
      for (int64_t b = w.begins[x]; b < w.begins[x + 1]; ++b) {
        sum += w.weights[b] * row[w.sources[b]];
      }
      to[x] = sum;
      continue;
    }
    T* const pixel = to + x * inner;
    if (w.begins[x] == w.begins[x + 1]) std::fill_n(pixel, inner, T{0});
    for (int64_t b = w.begins[x]; b < w.begins[x + 1]; ++b) {
      vectorized<add_row<T>>(row + w.sources[b] * inner, w.weights[b], b == w.begins[x], inner,
                             pixel);
    }
  }
}

template <class T>
void run_maps(const resample_detail::Maps<T>& maps, Tensor& scratch) {
  const int64_t from_row = maps.from_width * maps.inner, to_row = maps.w.rows * maps.inner;
  const int64_t taps_of_columns = taps_of_each(maps.w);
  const int64_t rows = maps.outer * maps.h.rows;
  const int64_t grain = kGrain / std::max<int64_t>(from_row + to_row, 1) + 1;
  T* const sums = overwrite<T>(ComputeDevice(), scratch,
                               std::max(omp_get_max_threads() * from_row, scratch.count()));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* const sum = sums + thread_number() * from_row;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t y = i % maps.h.rows;
      const T* const map = maps.from + i / maps.h.rows * maps.from_height * from_row;
      const int64_t first = maps.h.begins[y], last = maps.h.begins[y + 1];
      const T* row = sum;
      if (last - first == 1 && maps.h.weights[first] == T{1}) {
        row = map + maps.h.sources[first] * from_row;
      } else {
        if (first == last) std::fill_n(sum, from_row, T{0});
        for (int64_t a = first; a < last; ++a) {
          vectorized<add_row<T>>(map + maps.h.sources[a] * from_row, maps.h.weights[a], a == first,
                                 from_row, sum);
        }
      }
      resample_row(maps, taps_of_columns, row, maps.to + i * to_row);
    }
  });
}

}  // namespace

namespace resample_detail {

void run(const Maps<float>& maps, Tensor& scratch) { run_maps(maps, scratch); }
void run(const Maps<double>& maps, Tensor& scratch) { run_maps(maps, scratch); }

}  // namespace resample_detail

void Taps::add(int64_t source, double weight) {
  if (source > std::numeric_limits<int32_t>::max())
    throw Error("maps of more than 2^31 rows or columns cannot be resampled");
  sources.push_back(static_cast<int32_t>(source));
  weights.push_back(weight);
}

Taps nearest_taps(int64_t from, int64_t to, Sampling sampling) {
  Taps taps;
  for (int64_t i = 0; i < to; ++i) {
    const int64_t at =
        sampling == Sampling::edges ? i * from / to : std::llround(point_of(i, from, to, sampling));
    taps.add(std::min(at, from - 1), 1);
    taps.end_row();
  }
  return taps;
}

Taps nearest_exact_taps(int64_t from, int64_t to) {
  Taps taps;
  for (int64_t i = 0; i < to; ++i) {
    taps.add((2 * i + 1) * from / (2 * to), 1);
    taps.end_row();
  }
  return taps;
}

Taps linear_taps(int64_t from, int64_t to, Sampling sampling) {
  Taps taps;
  for (int64_t i = 0; i < to; ++i) {
    const double at =
        std::clamp(point_of(i, from, to, sampling), 0.0, static_cast<double>(from - 1));
    const auto below = static_cast<int64_t>(at);
    const double share = at - static_cast<double>(below);
    // Always two taps, which the loops are fast for; where one value counts alone, two halves of
    // it: zero times an infinite neighbour would be NaN.
    taps.add(below, share > 0 ? 1 - share : 0.5);
    taps.add(share > 0 ? below + 1 : below, share > 0 ? share : 0.5);
    taps.end_row();
  }
  return taps;
}

Taps cubic_taps(int64_t from, int64_t to, Sampling sampling) {
  constexpr double a = -0.75;
  const auto kernel = [](double distance) {
    const double d = std::abs(distance);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  };
  Taps taps;
  for (int64_t i = 0; i < to; ++i) {
    const double at = point_of(i, from, to, sampling);
    const auto below = static_cast<int64_t>(std::floor(at));
    for (int64_t k = below - 1; k <= below + 2; ++k) {
      taps.add(std::clamp<int64_t>(k, 0, from - 1), kernel(at - static_cast<double>(k)));
    }
    taps.end_row();
  }
  return taps;
}

std::vector<Option> ResampleLayer::reference_options(Blobs bottom, Blobs top) const {
  return without_blocks(same_format_options(bottom, top, dtype(), false));
}

void ResampleLayer::Table::set(const Taps& taps, DType dtype) {
  const auto ints = [](const std::vector<int32_t>& values, Tensor& to) {
    to.reshape(Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), to.overwrite<int32_t>());
  };
  ints(taps.begins, begins);
  ints(taps.sources, sources);
  if (weights.dtype() != dtype) weights = Tensor(Shape{0}, dtype);
  weights.reshape(Shape{static_cast<int64_t>(taps.weights.size())});
  dispatch_float(dtype, [&]<class T>(T) {
    T* const to = weights.overwrite<T>();
    for (size_t k = 0; k < taps.weights.size(); ++k) to[k] = static_cast<T>(taps.weights[k]);
  });
}

size_t ResampleLayer::kept_bytes() const {
  size_t bytes = scratch_.bytes();
  for (const Table* table : {&height_, &width_, &height_back_, &width_back_}) {
    bytes += table->begins.bytes() + table->sources.bytes() + table->weights.bytes();
  }
  return bytes;
}

void ResampleLayer::set_taps(Blobs bottom, Blobs top, const Taps& height, const Taps& width) {
  Shape shape = bottom[0]->shape();
  height_.set(height, dtype());
  width_.set(width, dtype());
  height_back_.set(transposed(height, shape[-2]), dtype());
  width_back_.set(transposed(width, shape[-1]), dtype());
  shape.set(shape.rank() - 2, height.rows());
  shape.set(shape.rank() - 1, width.rows());
  top[0]->reshape(shape);
}

}  // namespace crema
