// The passes of RowNormLayer: over rows, and over channels.
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

  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const T* const from = x + row * rows.size;
    const auto count = static_cast<double>(rows.size);
    double sum = 0, squares = 0;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      sum += static_cast<double>(from[j]);
    }
    const double mean = lanes.sum(sum) / count;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const double deviation = static_cast<double>(from[j]) - mean;
      squares += deviation * deviation;
    }
    const double inverse = 1 / std::sqrt(lanes.sum(squares) / count + eps);
    if (lanes.first == 0) {
      statistics.mean[row] = mean;
      statistics.inverse_deviation[row] = inverse;
    }
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const int64_t c = rows.channel(row, j);
      const double normalized = (static_cast<double>(from[j]) - mean) * inverse;
      y[row * rows.size + j] =
          static_cast<T>(normalized * (scale ? static_cast<double>(scale[c]) : 1) +
                         (bias ? static_cast<double>(bias[c]) : 0));
    }
  }
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

  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const int64_t first = row * rows.size;
    const double mean = statistics.mean[row], inverse = statistics.inverse_deviation[row];
    const auto count = static_cast<double>(rows.size);
    double sum = 0, products = 0;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const double g = gradient(row, j);
      sum += g;
      products += g * (static_cast<double>(x[first + j]) - mean) * inverse;
    }
    sum = lanes.sum(sum) / count;
    products = lanes.sum(products) / count;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const double normalized = (static_cast<double>(x[first + j]) - mean) * inverse;
      dx[first + j] = static_cast<T>(inverse * (gradient(row, j) - sum - normalized * products));
    }
  }
  CREMA_FUNCTOR double gradient(int64_t row, int64_t j) const {
    const double g = static_cast<double>(dy[row * rows.size + j]);
    return scale ? g * static_cast<double>(scale[rows.channel(row, j)]) : g;
  }
  void on_host(int64_t begin, int64_t end) const;
};

/// The gradients of the scale and of the bias of each channel grow. Either may be null: not wanted.
template <class T>
struct ParameterGradients {
  Rows rows;
  const T *x, *dy;
  Statistics statistics;
  T *of_scale, *of_bias;

  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t channel, const Lanes& lanes = {}) const {
    double sum = 0, products = 0;
    for (int64_t k = lanes.first; k < rows.each(); k += lanes.count) {
      const int64_t place = rows.place(channel, k), row = rows.row_of(channel, k);
      const double g = static_cast<double>(dy[place]);
      sum += g;
      products += g * (static_cast<double>(x[place]) - statistics.mean[row]) *
                  statistics.inverse_deviation[row];
    }
    sum = lanes.sum(sum);
    products = lanes.sum(products);
    if (lanes.first != 0) return;
    if (of_scale) of_scale[channel] += static_cast<T>(products);
    if (of_bias) of_bias[channel] += static_cast<T>(sum);
  }
  void on_host(int64_t begin, int64_t end) const;
};

}  // namespace crema::row_norm
