// The passes of RowNormLayer on the host: over rows, and over channels.
#pragma once

#include <cmath>

#include "layer_support/row_norm.hpp"

namespace crema::row_norm {

/// A forward pass over rows. The scale and the bias may be null: 1 and 0.
template <class T>
struct Forward {
  Rows rows;
  double eps;
  const T *x, *scale, *bias;
  Statistics statistics;
  T* y;

  /// With vectors; for rows [begin, end).
  void on_host(int64_t begin, int64_t end) const;
};

/// dx of rows.
template <class T>
struct Backward {
  Rows rows;
  const T *x, *dy, *scale;
  Statistics statistics;
  T* dx;

  void on_host(int64_t begin, int64_t end) const;
};

/// The gradients of the scale and of the bias of each channel grow. Either may be null: not wanted.
template <class T>
struct ParameterGradients {
  Rows rows;
  const T *x, *dy;
  Statistics statistics;
  T *of_scale, *of_bias;

  void on_host(int64_t begin, int64_t end) const;
};

}  // namespace crema::row_norm
