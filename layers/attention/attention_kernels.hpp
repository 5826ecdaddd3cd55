// The inner loops of attention on the CPU, in f32 and f64 by Highway.
//
// A panel is a matrix whose rows have `width` elements. Weights of queries and keys lie in panels
// of `width` queries each, a row a key: what belongs to a query is a lane, and sums over keys need
// no sums over lanes.
#pragma once

#include <cstdint>

namespace crema {

/// c[r, :] = sum over k of a[r, k] * b[k, :], or += with `adds`, for panels b and c. Value k of row
/// r of `a` is a[r * a_row + k / inner * a_outer + k % inner * a_inner], k < outer * inner.
template <class T>
struct PanelProduct {
  int64_t rows, outer, inner;
  const T* a;
  int64_t a_row, a_outer, a_inner;
  const T* b;  // rows behind each other
  T* c;
  int64_t c_row;  // elements from one row to the next
  bool adds;
  bool narrow = false;  // the first half of the width alone
};

/// A panel of scores, and which of them count.
template <class T>
struct ScorePanel {
  int64_t keys;
  T* scores;              // (keys, width)
  const uint8_t* padded;  // (keys), not 0 for keys that do not count; null: all do
  bool causal;            // key j counts for queries from j on
  int64_t first_query, first_key;
  bool narrow = false;  // the first half of the queries alone; for soften
};

template <class T>
struct AttentionKernels {
  int64_t width;

  void (*product)(const PanelProduct<T>& product);
  /// scores = exp(score - most), 0 for those that do not count, where `most` (width) becomes the
  /// largest score so far. total = total * factor + the sum of the new ones, factor = exp(the old
  /// `most` - the new one).
  void (*soften)(const ScorePanel<T>& panel, T* most, T* total, T* factor);
  /// scores = exp(score - log_sum), 0 for those that do not count.
  void (*weights)(const ScorePanel<T>& panel, const T* log_sum);
  /// d = weight * (d - mean) for panels of `keys` rows; mean (width).
  void (*score_gradients)(int64_t keys, const T* weights, const T* mean, T* d);
  /// Panels of the columns of x (rows, n), times `factor`; `panel` elements from one to the next.
  /// What fills the last panel is 0.
  void (*to_panels)(int64_t rows, int64_t n, const T* x, int64_t x_row, T factor, T* panels,
                    int64_t panel);
  /// sums[r] = the sum over i < n of x[r * row + i] * y[r * row + i]
  void (*dot_rows)(int64_t rows, int64_t n, const T* x, const T* y, int64_t row, T* sums);
  /// y[r, :] = x[r, :] * factor[r] for rows of n elements; y may be x.
  void (*scale_rows)(int64_t rows, int64_t n, const T* factor, const T* x, int64_t x_row, T* y,
                     int64_t y_row);
};

/// For the instructions that this processor has. T: float or double.
template <class T>
const AttentionKernels<T>& attention_kernels();

}  // namespace crema
