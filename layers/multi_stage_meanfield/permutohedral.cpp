#include "layers/multi_stage_meanfield/permutohedral.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/simd.hpp"
#include "crema/error.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"

namespace crema {
namespace {

constexpr int64_t kMostDimensions = 8;
constexpr int64_t kGrain = 256;  // rows of channels

/// to += weight * from
template <class T>
[[gnu::always_inline]] inline void add_row(T weight, const T* from, int64_t n, T* to) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) to[c] += weight * from[c];
}

/// For rows [begin, end): the sum over a row's entries of weights[entry] * x[row_of(entry)].
template <class T>
[[gnu::always_inline]] inline void splat_rows(int64_t begin, int64_t end, const int32_t* begins,
                                              const int32_t* touching, const T* weights,
                                              int64_t corners, int64_t channels, const T* x,
                                              T* values) {
  for (int64_t v = begin; v < end; ++v) {
    T* const to = values + v * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = T{0};
    for (int32_t i = begins[v]; i < begins[v + 1]; ++i) {
      const int64_t corner = touching[i];
      add_row(weights[corner], x + corner / corners * channels, channels, to);
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void blur_rows(int64_t begin, int64_t end, const int32_t* neighbours,
                                             int64_t channels, const T* from, T* to) {
  for (int64_t v = begin; v < end; ++v) {
    const T* const here = from + v * channels;
    const T* const before = from + neighbours[2 * v] * channels;
    const T* const behind = from + neighbours[2 * v + 1] * channels;
    T* const row = to + v * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      row[c] = T(0.5) * here[c] + T(0.25) * (before[c] + behind[c]);
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void slice_rows(int64_t begin, int64_t end, const int32_t* vertices,
                                              const T* weights, int64_t corners, int64_t channels,
                                              const T* values, T* y) {
  for (int64_t p = begin; p < end; ++p) {
    T* const to = y + p * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = T{0};
    for (int64_t i = p * corners; i < (p + 1) * corners; ++i) {
      add_row(weights[i], values + vertices[i] * channels, channels, to);
    }
  }
}

// On a device.

/// Item v: the sum over its entries, by threads that take every n-th one, and then over those. Row
/// `vertices` is 0.
template <class T>
struct SplatVertex {
  int64_t vertices, corners, channels;
  const int32_t *begins, *touching;
  const T *weights, *x;
  T* values;

  CREMA_FUNCTOR T sum(int32_t begin, int32_t end, int64_t step, int64_t c) const {
    T sum{0};
    for (int64_t i = begin; i < end; i += step) {
      const int64_t corner = touching[i];
      sum += weights[corner] * x[corner / corners * channels + c];
    }
    return sum;
  }
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t v, const Lanes& lanes) const {
    const int32_t begin = v < vertices ? begins[v] : 0, end = v < vertices ? begins[v + 1] : 0;
    T* const to = values + v * channels;
    const int64_t groups = lanes.count / channels;
    if (groups <= 1) {
      for (int64_t c = lanes.first; c < channels; c += lanes.count) to[c] = sum(begin, end, 1, c);
      return;
    }
    const int64_t c = lanes.first % channels, group = lanes.first / channels;
    if (group < groups)
      lanes.shared[lanes.first] =
          static_cast<double>(sum(static_cast<int32_t>(begin + group), end, groups, c));
    lanes.wait();
    if (group != 0) return;
    T all{0};
    for (int64_t g = 0; g < groups; ++g) all += static_cast<T>(lanes.shared[g * channels + c]);
    to[c] = all;
  }
};

/// For each value of a vertex, and of the row of zeros.
template <class T>
struct BlurValue {
  int64_t vertices, channels;
  const int32_t* neighbours;
  const T* from;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t v = i / channels, c = i % channels;
    if (v == vertices) {
      to[i] = T{0};
      return;
    }
    to[i] = T(0.5) * from[i] + T(0.25) * (from[neighbours[2 * v] * channels + c] +
                                          from[neighbours[2 * v + 1] * channels + c]);
  }
};

/// For each value of a point.
template <class T>
struct SliceValue {
  int64_t corners, channels;
  const int32_t* vertices;
  const T *weights, *values;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t p = i / channels, c = i % channels;
    T sum{0};
    for (int64_t k = p * corners; k < (p + 1) * corners; ++k)
      sum += weights[k] * values[vertices[k] * channels + c];
    y[i] = sum;
  }
};

}  // namespace

template <class T>
size_t Permutohedral<T>::bytes() const {
  size_t bytes = (table_.capacity() + keys_.capacity()) * sizeof(int32_t);
  for (const Tensor* tensor :
       {&corners_, &weights_, &neighbours_, &begins_, &touching_, &values_, &blurred_})
    bytes += tensor->bytes();
  return bytes;
}

template <class T>
void Permutohedral<T>::place(int64_t points, int64_t dimensions, const double* features) {
  points_ = points;
  dimensions_ = dimensions;
  vertices_ = 0;
  const int64_t corners = points * (dimensions + 1);
  int32_t* const vertices = overwrite<int32_t>(ComputeDevice(), corners_, corners);
  T* const weights = overwrite<T>(ComputeDevice(), weights_, corners);
  keys_.clear();
  table_.assign(std::bit_ceil(static_cast<size_t>(2 * corners + 1)), -1);
  for (int64_t p = 0; p < points; ++p) {
    find_simplex(features + p * dimensions, vertices + p * (dimensions + 1),
                 weights + p * (dimensions + 1));
  }
  find_neighbours();
  sort_by_vertex();
}

/// The corners of the simplex around a point, and its barycentric coordinates there.
template <class T>
void Permutohedral<T>::find_simplex(const double* feature, int32_t* vertices, T* weights) {
  const int64_t d = dimensions_, n = d + 1;
  // The point in the hyperplane of n coordinates whose sum is 0, scaled so that splat, blur and
  // slice together have a deviation of 1.
  double at[kMostDimensions + 1];
  const double deviation = static_cast<double>(n) * std::sqrt(2.0 / 3);
  double sum = 0;
  for (int64_t i = d; i > 0; --i) {
    const auto size = static_cast<double>(i);
    const double x = feature[i - 1] * deviation / std::sqrt(size * (size + 1));
    at[i] = sum - size * x;
    sum += x;
  }
  at[0] = sum;

  // The nearest point whose coordinates are multiples of n, and the order of what is left.
  double base[kMostDimensions + 1];
  int64_t rank[kMostDimensions + 1] = {}, excess = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double multiple = std::round(at[i] / static_cast<double>(n));
    if (!(std::abs(multiple) < 1e8))
      throw Error("a colour of the image is no number, or too large for theta_beta");
    base[i] = multiple * static_cast<double>(n);
    excess += static_cast<int64_t>(multiple);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) ++rank[at[i] - base[i] < at[j] - base[j] ? i : j];
  }
  // Their sum has to be 0: those that were rounded farthest go to the other multiple.
  for (int64_t i = 0; i < n; ++i) {
    rank[i] += excess;
    const int64_t turn = rank[i] < 0 ? 1 : rank[i] > d ? -1 : 0;
    rank[i] += turn * n;
    base[i] += static_cast<double>(turn * n);
  }

  double shares[kMostDimensions + 2] = {};
  for (int64_t i = 0; i < n; ++i) {
    const double part = (at[i] - base[i]) / static_cast<double>(n);
    shares[d - rank[i]] += part;
    shares[d + 1 - rank[i]] -= part;
  }
  shares[0] += 1 + shares[n];
  for (int64_t k = 0; k < n; ++k) {
    int32_t key[kMostDimensions];
    for (int64_t i = 0; i < d; ++i) {
      key[i] = static_cast<int32_t>(static_cast<int64_t>(base[i]) + k - (rank[i] > d - k ? n : 0));
    }
    vertices[k] = vertex_of(key);
    weights[k] = static_cast<T>(shares[k]);
  }
}

template <class T>
size_t Permutohedral<T>::slot_of(const int32_t* key) const {
  uint64_t hash = 0;
  for (int64_t i = 0; i < dimensions_; ++i) {
    hash = (hash ^ static_cast<uint32_t>(key[i])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  size_t slot = hash & (table_.size() - 1);
  while (table_[slot] >= 0 &&
         !std::equal(key, key + dimensions_, keys_.data() + table_[slot] * dimensions_)) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  return slot;
}

template <class T>
int32_t Permutohedral<T>::vertex_of(const int32_t* key) {
  int32_t& entry = table_[slot_of(key)];
  if (entry < 0) {
    entry = static_cast<int32_t>(vertices_++);
    keys_.insert(keys_.end(), key, key + dimensions_);
  }
  return entry;
}

/// The number of vertices, that of the row of zeros, if there is no such vertex.
template <class T>
int32_t Permutohedral<T>::find(const int32_t* key) const {
  const int32_t vertex = table_[slot_of(key)];
  return vertex >= 0 ? vertex : static_cast<int32_t>(vertices_);
}

template <class T>
void Permutohedral<T>::find_neighbours() {
  const int64_t d = dimensions_;
  int32_t* const neighbours =
      overwrite_some<int32_t>(ComputeDevice(), neighbours_, (d + 1) * vertices_ * 2);
  parallel_for((d + 1) * vertices_, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t direction = i / vertices_;
      const int32_t* const key = keys_.data() + i % vertices_ * d;
      for (int32_t side = 0; side < 2; ++side) {
        const int32_t step = side == 0 ? 1 : -1;
        int32_t other[kMostDimensions];
        for (int64_t k = 0; k < d; ++k) other[k] = key[k] + step;
        // The last coordinate, which is not stored, changes in its own direction.
        if (direction < d) other[direction] = key[direction] - step * static_cast<int32_t>(d);
        neighbours[2 * i + side] = find(other);
      }
    }
  });
}

template <class T>
void Permutohedral<T>::sort_by_vertex() {
  const auto corners = corners_.values<int32_t>();
  int32_t* const begins = overwrite_some<int32_t>(ComputeDevice(), begins_, vertices_ + 1);
  int32_t* const touching = overwrite<int32_t>(ComputeDevice(), touching_, corners_.count());
  std::fill_n(begins, vertices_ + 1, 0);
  for (const int32_t vertex : corners) ++begins[vertex + 1];
  for (int64_t v = 1; v <= vertices_; ++v) begins[v] += begins[v - 1];
  // While they are filled, the begins move to the ends, which are the next begins.
  for (size_t i = 0; i < corners.size(); ++i)
    touching[begins[corners[i]]++] = static_cast<int32_t>(i);
  for (int64_t v = vertices_; v > 0; --v) begins[v] = begins[v - 1];
  begins[0] = 0;
}

template <class T>
void Permutohedral<T>::splat(const ComputeDevice& device, int64_t channels, const T* x, T* values) {
  const int64_t corners = dimensions_ + 1;
  const int32_t* const begins = device.read<int32_t>(begins_);
  const int32_t* const touching = device.read<int32_t>(touching_);
  const T* const weights = device.read<T>(weights_);
  if (!device.on_host()) {
    constexpr int64_t kThreads = 256;
    const int64_t entries = touching_.count() / std::max<int64_t>(vertices_, 1) + 1;
    return for_each_block(
        device, vertices_ + 1, entries * channels, kThreads,
        SplatVertex<T>{vertices_, corners, channels, begins, touching, weights, x, values});
  }
  std::fill_n(values + vertices_ * channels, channels, T{0});
  parallel_for(vertices_, kGrain, [&](int64_t begin, int64_t end) {
    vectorized<splat_rows<T>>(begin, end, begins, touching, weights, corners, channels, x, values);
  });
}

template <class T>
void Permutohedral<T>::blur(const ComputeDevice& device, int64_t channels, int64_t direction,
                            const T* from, T* to) {
  const int32_t* const neighbours = device.read<int32_t>(neighbours_) + direction * vertices_ * 2;
  if (!device.on_host()) {
    return for_each(device, (vertices_ + 1) * channels, kPassGrain,
                    BlurValue<T>{vertices_, channels, neighbours, from, to});
  }
  std::fill_n(to + vertices_ * channels, channels, T{0});
  parallel_for(vertices_, kGrain, [&](int64_t begin, int64_t end) {
    vectorized<blur_rows<T>>(begin, end, neighbours, channels, from, to);
  });
}

template <class T>
void Permutohedral<T>::slice(const ComputeDevice& device, int64_t channels, const T* values, T* y) {
  const int64_t corners = dimensions_ + 1;
  const int32_t* const vertices = device.read<int32_t>(corners_);
  const T* const weights = device.read<T>(weights_);
  if (!device.on_host()) {
    return for_each(device, points_ * channels, kPassGrain,
                    SliceValue<T>{corners, channels, vertices, weights, values, y});
  }
  parallel_for(points_, kGrain, [&](int64_t begin, int64_t end) {
    vectorized<slice_rows<T>>(begin, end, vertices, weights, corners, channels, values, y);
  });
}

template <class T>
void Permutohedral<T>::filter(const ComputeDevice& device, int64_t channels, bool adjoint,
                              const T* x, T* y) {
  const int64_t count = (vertices_ + 1) * channels;
  T *values = overwrite_some<T>(device, values_, count),
    *blurred = overwrite_some<T>(device, blurred_, count);
  splat(device, channels, x, values);
  for (int64_t i = 0; i <= dimensions_; ++i) {
    blur(device, channels, adjoint ? dimensions_ - i : i, values, blurred);
    std::swap(values, blurred);
  }
  slice(device, channels, values, y);
}

template class Permutohedral<float>;
template class Permutohedral<double>;

}  // namespace crema
