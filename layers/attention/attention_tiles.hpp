// Attention on a device: a block of threads has a tile of queries, or of keys, and goes through the
// tiles of the others. A tile of weights exists at a time, in shared memory, and a running maximum
// and sum correct what was added up before (see blocked_attention.hpp, which does the same on the
// CPU). Sums have one order. For sources that include layer_support/passes.hpp.
//
// Rows of matrices in shared memory are one value longer than they have to be, so that values below
// each other are in different banks.
#pragma once

#include <limits>

#include "core/float_values.hpp"
#include "core/philox.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/pass_key.hpp"
#include "layers/attention/blocked_attention.hpp"

namespace crema::attention {

/// What all passes read.
template <class T>
struct Heads {
  AttentionSizes sizes;
  ValuesIn<T> q, k, v;  // as of AttentionInputs
  T scale;
  bool causal;
  const uint8_t* padded;  // as of AttentionInputs
  AttentionDropout dropout;
  RandomKey key;  // of its random numbers

  CREMA_FUNCTOR bool counts(int64_t sample, int64_t i, int64_t j) const {
    return i < sizes.queries && j < sizes.keys && (!causal || j <= i) &&
           (padded == nullptr || padded[sample * sizes.keys + j] == 0);
  }
  /// The factor of dropout on a weight. `head`: of all samples.
  CREMA_FUNCTOR T kept(int64_t head, int64_t i, int64_t j) const {
    const int64_t blocks = (sizes.queries + 7) / 8;
    const auto block = static_cast<uint64_t>((head * sizes.keys + j) * blocks + i / 8);
    const RandomKey known = key.known();
    const PhiloxBlock drawn =
        philox_block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                     known.key0, known.key1);
    const uint32_t pairs[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    const uint32_t word = pairs[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
    return word < dropout.threshold ? T{0} : static_cast<T>(dropout.scale);
  }
};

/// A head of a sample: where the rows of its first position are, and from one to the next.
struct Head {
  int64_t sample, all;  // `all`: the number of the head among those of all samples
  int64_t q, k, v, y;
  int64_t row, value_row;

  CREMA_FUNCTOR Head(const AttentionSizes& s, int64_t head) : sample(head / s.heads), all(head) {
    const int64_t own = head % s.heads;
    row = s.heads * s.depth;
    value_row = s.heads * s.value_depth;
    q = sample * s.queries * row + own * s.depth;
    k = sample * s.keys * row + own * s.depth;
    v = sample * s.keys * value_row + own * s.value_depth;
    y = sample * s.queries * value_row + own * s.value_depth;
  }
};

/// Rows [first, first + n) of a matrix of `count` rows into shared memory; 0 for those behind.
template <class T, class Lanes>
CREMA_FUNCTOR void load_rows(const Lanes& lanes, const ValuesIn<T>& from, int64_t at, int64_t row,
                             int64_t first, int64_t count, int n, int depth, int to) {
  for (int e = static_cast<int>(lanes.first); e < n * depth; e += static_cast<int>(lanes.count)) {
    const int r = e / depth, c = e % depth;
    lanes.shared[to + r * (depth + 1) + c] =
        first + r < count ? from[at + (first + r) * row + c] : T{0};
  }
}

template <class T, class Lanes>
CREMA_FUNCTOR void fill(const Lanes& lanes, int count, T value, int to) {
  for (int e = static_cast<int>(lanes.first); e < count; e += static_cast<int>(lanes.count))
    lanes.shared[to + e] = value;
}

/// The other way round: rows of shared memory to those [first, first + n) of a matrix of `count`
/// rows.
template <class T, class Lanes>
CREMA_FUNCTOR void store_rows(const Lanes& lanes, int from, int n, int depth,
                              const ValuesOut<T>& to, int64_t at, int64_t row, int64_t first,
                              int64_t count) {
  for (int e = static_cast<int>(lanes.first); e < n * depth; e += static_cast<int>(lanes.count)) {
    const int r = e / depth, c = e % depth;
    if (first + r < count)
      to[at + (first + r) * row + c] = static_cast<T>(lanes.shared[from + r * (depth + 1) + c]);
  }
}

/// What a lane computes of a product: rows and columns, which lie far from each other, so that
/// those of neighbouring lanes are neighbours.
inline constexpr int kLaneRows = 2, kLaneColumns = 4;

/// c = scale a b^T for matrices (n, depth); c (n, n).
template <int R, int C, class T, class Lanes>
CREMA_FUNCTOR void products_of(const Lanes& lanes, int n, int depth, int a, int b, T scale, int c) {
  const int rows = n / R, columns = n / C, stride = depth + 1;
  for (int unit = static_cast<int>(lanes.first); unit < rows * columns;
       unit += static_cast<int>(lanes.count)) {
    const int r = unit / columns, s = unit % columns;
    T sums[R][C];
    for (int m = 0; m < R; ++m) {
      for (int k = 0; k < C; ++k) sums[m][k] = T{0};
    }
    for (int i = 0; i < depth; ++i) {
      T left[R], right[C];
      for (int m = 0; m < R; ++m)
        left[m] = static_cast<T>(lanes.shared[a + (r + m * rows) * stride + i]);
      for (int k = 0; k < C; ++k)
        right[k] = static_cast<T>(lanes.shared[b + (s + k * columns) * stride + i]);
      for (int m = 0; m < R; ++m) {
        for (int k = 0; k < C; ++k) sums[m][k] += left[m] * right[k];
      }
    }
    for (int m = 0; m < R; ++m) {
      for (int k = 0; k < C; ++k)
        lanes.shared[c + (r + m * rows) * (n + 1) + s + k * columns] = scale * sums[m][k];
    }
  }
}
template <class T, class Lanes>
CREMA_FUNCTOR void products(const Lanes& lanes, int n, int depth, int a, int b, T scale, int c) {
  if (n % kLaneColumns == 0)
    return products_of<kLaneRows, kLaneColumns>(lanes, n, depth, a, b, scale, c);
  products_of<1, 1>(lanes, n, depth, a, b, scale, c);
}

/// sums (n, depth) = factor * sums + w x, or w^T x, for w (n, n) and x (n, depth). `factor`: where
/// those of the rows are; below 0: they are 1.
template <int R, bool kTransposed, class T, class Lanes>
CREMA_FUNCTOR void add_products_of(const Lanes& lanes, int n, int depth, int w, int x, int factor,
                                   int sums) {
  constexpr int C = kLaneColumns;
  const int rows = n / R, columns = (depth + C - 1) / C, stride = depth + 1;
  for (int unit = static_cast<int>(lanes.first); unit < rows * columns;
       unit += static_cast<int>(lanes.count)) {
    const int r = unit / columns, s = unit % columns;
    T added[R][C];
    for (int m = 0; m < R; ++m) {
      const T scale = factor < 0 ? T{1} : static_cast<T>(lanes.shared[factor + r + m * rows]);
      for (int k = 0; k < C; ++k) {
        const int c = s + k * columns;
        added[m][k] = c < depth
                          ? scale * static_cast<T>(lanes.shared[sums + (r + m * rows) * stride + c])
                          : T{0};
      }
    }
    for (int i = 0; i < n; ++i) {
      T left[R], right[C];
      for (int m = 0; m < R; ++m) {
        const int at = r + m * rows;
        left[m] =
            static_cast<T>(lanes.shared[w + (kTransposed ? i * (n + 1) + at : at * (n + 1) + i)]);
      }
      for (int k = 0; k < C; ++k) {
        const int c = s + k * columns;
        right[k] = c < depth ? static_cast<T>(lanes.shared[x + i * stride + c]) : T{0};
      }
      for (int m = 0; m < R; ++m) {
        for (int k = 0; k < C; ++k) added[m][k] += left[m] * right[k];
      }
    }
    for (int m = 0; m < R; ++m) {
      for (int k = 0; k < C; ++k) {
        const int c = s + k * columns;
        if (c < depth) lanes.shared[sums + (r + m * rows) * stride + c] = added[m][k];
      }
    }
  }
}
template <bool kTransposed, class T, class Lanes>
CREMA_FUNCTOR void add_products(const Lanes& lanes, int n, int depth, int w, int x, int factor,
                                int sums) {
  if (n % kLaneRows == 0)
    return add_products_of<kLaneRows, kTransposed, T>(lanes, n, depth, w, x, factor, sums);
  add_products_of<1, kTransposed, T>(lanes, n, depth, w, x, factor, sums);
}

/// Rows of a tile: the most whose values fit into shared memory; 0 if not even one fits. `values`
/// (n) are those of a tile of n.
inline constexpr int kMostRows = 32;
template <class T, class Values>
int rows_of_tile(const Values& values) {
  int n = kMostRows;
  while (n > 0 && values(n) > kMostSharedOf<T>) n /= 2;
  return n;
}

/// Item: a tile of queries of a head.
template <class T>
struct ForwardTile {
  Heads<T> heads;
  int n;
  ValuesOut<T> y;
  T* log_sums;  // as of BlockedAttention

  // Where what lies in shared memory: q, the keys or values of a tile, its weights, sums of values,
  // and what belongs to each query.
  struct Places {
    int q = 0, other, weights, sums, most, total, factor, count;
    CREMA_FUNCTOR Places(int n, int depth, int values) {
      other = n * (depth + 1);
      weights = other + n * ((depth > values ? depth : values) + 1);
      sums = weights + n * (n + 1);
      most = sums + n * (values + 1);
      total = most + n;
      factor = total + n;
      count = factor + n;
    }
  };

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const AttentionSizes& s = heads.sizes;
    const int64_t tiles = (s.queries + n - 1) / n, first = item % tiles * n;
    const Head head(s, item / tiles);
    const int depth = static_cast<int>(s.depth), values = static_cast<int>(s.value_depth);
    const Places at(n, depth, values);
    const T none = -std::numeric_limits<T>::infinity();
    const int lane = static_cast<int>(lanes.first), all = static_cast<int>(lanes.count);
    load_rows<T>(lanes, heads.q, head.q, head.row, first, s.queries, n, depth, at.q);
    fill<T>(lanes, n * (values + 1), T{0}, at.sums);
    fill<T>(lanes, n, none, at.most);
    fill<T>(lanes, n, T{0}, at.total);
    const int64_t end = heads.causal && first + n < s.keys ? first + n : s.keys;
    for (int64_t j = 0; j < end; j += n) {
      lanes.wait();
      load_rows<T>(lanes, heads.k, head.k, head.row, j, s.keys, n, depth, at.other);
      lanes.wait();
      products<T>(lanes, n, depth, at.q, at.other, heads.scale, at.weights);
      lanes.wait();
      load_rows<T>(lanes, heads.v, head.v, head.value_row, j, s.keys, n, values, at.other);
      for (int r = lane; r < n; r += all) find_most(lanes, head, first, j, r, at);
      lanes.wait();
      for (int e = lane; e < n * n; e += all) {
        const int r = e / n, weight = at.weights + r * (n + 1) + e % n;
        const T most = static_cast<T>(lanes.shared[at.most + r]);
        const T shift = most == none ? T{0} : most;
        lanes.shared[weight] = exp(static_cast<T>(lanes.shared[weight]) - shift);
      }
      lanes.wait();
      for (int r = lane; r < n; r += all) {
        T total = static_cast<T>(lanes.shared[at.total + r]) *
                  static_cast<T>(lanes.shared[at.factor + r]);
        for (int c = 0; c < n; ++c)
          total += static_cast<T>(lanes.shared[at.weights + r * (n + 1) + c]);
        lanes.shared[at.total + r] = total;
      }
      if (heads.dropout.threshold > 0) {
        lanes.wait();
        for (int e = lane; e < n * n; e += all) {
          const int r = e / n, c = e % n, weight = at.weights + r * (n + 1) + c;
          lanes.shared[weight] =
              static_cast<T>(lanes.shared[weight]) * heads.kept(head.all, first + r, j + c);
        }
        lanes.wait();
      }
      add_products<false, T>(lanes, n, values, at.weights, at.other, at.factor, at.sums);
    }
    lanes.wait();
    for (int r = lane; r < n; r += all) {
      const T total = static_cast<T>(lanes.shared[at.total + r]);
      lanes.shared[at.factor + r] = total == T{0} ? T{0} : T{1} / total;
      if (first + r >= s.queries) continue;
      log_sums[head.all * s.queries + first + r] =
          total == T{0} ? std::numeric_limits<T>::infinity()
                        : static_cast<T>(lanes.shared[at.most + r]) + log(total);
    }
    lanes.wait();
    for (int e = lane; e < n * values; e += all) {
      const int r = e / values, c = e % values;
      if (first + r >= s.queries) continue;
      y[head.y + (first + r) * head.value_row + c] =
          static_cast<T>(lanes.shared[at.sums + r * (values + 1) + c]) *
          static_cast<T>(lanes.shared[at.factor + r]);
    }
  }

  /// The largest score of a row so far; scores that do not count become -infinity.
  template <class Lanes>
  CREMA_FUNCTOR void find_most(const Lanes& lanes, const Head& head, int64_t first, int64_t j,
                               int r, const Places& at) const {
    const T none = -std::numeric_limits<T>::infinity();
    const T before = static_cast<T>(lanes.shared[at.most + r]);
    T most = before;
    for (int c = 0; c < n; ++c) {
      const int score = at.weights + r * (n + 1) + c;
      if (heads.counts(head.sample, first + r, j + c)) {
        const T value = static_cast<T>(lanes.shared[score]);
        if (!(value <= most)) most = value;
      } else {
        lanes.shared[score] = none;
      }
    }
    lanes.shared[at.most + r] = most;
    lanes.shared[at.factor + r] = exp(before - (most == none ? T{0} : most));
  }
};

/// mean[query] = the mean of the gradients of its weights, which is that of y times dy.
template <class T>
struct MeanBody {
  AttentionSizes sizes;
  ValuesIn<T> y, dy;
  T* mean;
  CREMA_FUNCTOR void operator()(int64_t item) const {
    const Head head(sizes, item / sizes.queries);
    const int64_t at = head.y + item % sizes.queries * head.value_row;
    T sum{0};
    for (int64_t c = 0; c < sizes.value_depth; ++c) sum += y[at + c] * dy[at + c];
    mean[item] = sum;
  }
};

/// What both passes of backward read, and what they make of a tile.
template <class T>
struct Gradients {
  Heads<T> heads;
  ValuesIn<T> dy;
  const T *log_sums, *mean;

  /// From scores and the gradients of the weights after dropout, (n, n) each: these weights, and
  /// the gradients of the scores times `scale`.
  template <class Lanes>
  CREMA_FUNCTOR void finish(const Lanes& lanes, const Head& head, int n, int64_t i, int64_t j,
                            int scores, int gradients) const {
    for (int e = static_cast<int>(lanes.first); e < n * n; e += static_cast<int>(lanes.count)) {
      const int r = e / n, c = e % n, at = r * (n + 1) + c;
      T weight{0}, gradient{0};
      if (heads.counts(head.sample, i + r, j + c)) {
        const int64_t query = head.all * heads.sizes.queries + i + r;
        const T kept = heads.dropout.threshold == 0 ? T{1} : heads.kept(head.all, i + r, j + c);
        weight = exp(static_cast<T>(lanes.shared[scores + at]) - log_sums[query]);
        gradient = weight * (kept * static_cast<T>(lanes.shared[gradients + at]) - mean[query]) *
                   heads.scale;
        weight *= kept;
      }
      lanes.shared[scores + at] = weight;
      lanes.shared[gradients + at] = gradient;
    }
  }
};

/// Item: a tile of queries of a head.
template <class T>
struct QueryGradientsTile {
  Gradients<T> gradients;
  int n;
  ValuesOut<T> dq;

  struct Places {
    int q = 0, dy, k, v, scores, gradients, sums, count;
    CREMA_FUNCTOR Places(int n, int depth, int values) {
      dy = n * (depth + 1);
      k = dy + n * (values + 1);
      v = k + n * (depth + 1);
      scores = v + n * (values + 1);
      gradients = scores + n * (n + 1);
      sums = gradients + n * (n + 1);
      count = sums + n * (depth + 1);
    }
  };

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const Heads<T>& heads = gradients.heads;
    const AttentionSizes& s = heads.sizes;
    const int64_t tiles = (s.queries + n - 1) / n, first = item % tiles * n;
    const Head head(s, item / tiles);
    const int depth = static_cast<int>(s.depth), values = static_cast<int>(s.value_depth);
    const Places at(n, depth, values);
    load_rows<T>(lanes, heads.q, head.q, head.row, first, s.queries, n, depth, at.q);
    load_rows<T>(lanes, gradients.dy, head.y, head.value_row, first, s.queries, n, values, at.dy);
    fill<T>(lanes, n * (depth + 1), T{0}, at.sums);
    const int64_t end = heads.causal && first + n < s.keys ? first + n : s.keys;
    for (int64_t j = 0; j < end; j += n) {
      lanes.wait();
      load_rows<T>(lanes, heads.k, head.k, head.row, j, s.keys, n, depth, at.k);
      load_rows<T>(lanes, heads.v, head.v, head.value_row, j, s.keys, n, values, at.v);
      lanes.wait();
      products<T>(lanes, n, depth, at.q, at.k, heads.scale, at.scores);
      products<T>(lanes, n, values, at.dy, at.v, T{1}, at.gradients);
      lanes.wait();
      gradients.finish(lanes, head, n, first, j, at.scores, at.gradients);
      lanes.wait();
      add_products<false, T>(lanes, n, depth, at.gradients, at.k, -1, at.sums);
    }
    lanes.wait();
    store_rows<T>(lanes, at.sums, n, depth, dq, head.q, head.row, first, s.queries);
  }
};

/// Item: a tile of keys of a head. dk or dv may be null: not wanted.
template <class T>
struct KeyGradientsTile {
  Gradients<T> gradients;
  int n;
  ValuesOut<T> dk, dv;

  struct Places {
    int k = 0, v, q, dy, scores, gradients, of_keys, of_values, count;
    CREMA_FUNCTOR Places(int n, int depth, int values) {
      v = n * (depth + 1);
      q = v + n * (values + 1);
      dy = q + n * (depth + 1);
      scores = dy + n * (values + 1);
      gradients = scores + n * (n + 1);
      of_keys = gradients + n * (n + 1);
      of_values = of_keys + n * (depth + 1);
      count = of_values + n * (values + 1);
    }
  };

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const Heads<T>& heads = gradients.heads;
    const AttentionSizes& s = heads.sizes;
    const int64_t tiles = (s.keys + n - 1) / n, first = item % tiles * n;
    const Head head(s, item / tiles);
    const int depth = static_cast<int>(s.depth), values = static_cast<int>(s.value_depth);
    const Places at(n, depth, values);
    load_rows<T>(lanes, heads.k, head.k, head.row, first, s.keys, n, depth, at.k);
    load_rows<T>(lanes, heads.v, head.v, head.value_row, first, s.keys, n, values, at.v);
    fill<T>(lanes, n * (depth + 1), T{0}, at.of_keys);
    fill<T>(lanes, n * (values + 1), T{0}, at.of_values);
    for (int64_t i = heads.causal ? first : 0; i < s.queries; i += n) {
      lanes.wait();
      load_rows<T>(lanes, heads.q, head.q, head.row, i, s.queries, n, depth, at.q);
      load_rows<T>(lanes, gradients.dy, head.y, head.value_row, i, s.queries, n, values, at.dy);
      lanes.wait();
      products<T>(lanes, n, depth, at.q, at.k, heads.scale, at.scores);
      products<T>(lanes, n, values, at.dy, at.v, T{1}, at.gradients);
      lanes.wait();
      gradients.finish(lanes, head, n, i, first, at.scores, at.gradients);
      lanes.wait();
      if (dk) add_products<true, T>(lanes, n, depth, at.gradients, at.q, -1, at.of_keys);
      if (dv) add_products<true, T>(lanes, n, values, at.scores, at.dy, -1, at.of_values);
    }
    lanes.wait();
    if (dk) store_rows<T>(lanes, at.of_keys, n, depth, dk, head.k, head.row, first, s.keys);
    if (dv)
      store_rows<T>(lanes, at.of_values, n, values, dv, head.v, head.value_row, first, s.keys);
  }
};

/// Rows of the tiles of a pass, in which a `Tile` is done; 0 if the heads are too wide.
template <class T, template <class> class Tile>
int rows_for(const AttentionSizes& s) {
  return rows_of_tile<T>([&](int n) {
    return typename Tile<T>::Places(n, static_cast<int>(s.depth), static_cast<int>(s.value_depth))
        .count;
  });
}

/// Threads of a block: each has some values of a product.
inline constexpr int64_t kThreads = 128;

/// Runs a Tile over all tiles of `positions` positions of each head.
template <class T, template <class> class Tile>
void for_each_tile(const ComputeDevice& device, const AttentionSizes& s, int64_t positions,
                   const Tile<T>& tile) {
  const int64_t tiles = (positions + tile.n - 1) / tile.n;
  const typename Tile<T>::Places places(tile.n, static_cast<int>(s.depth),
                                        static_cast<int>(s.value_depth));
  for_each_block<T>(device, s.batch * s.heads * tiles, kThreads, places.count, tile);
}

}  // namespace crema::attention
