// Functors of layers that subtract a mean and divide by a deviation, over channels and over
// elements of a ChannelView. A variance is the mean of squared deviations from the mean, which is
// known before.
#pragma once

#include "backend/channel_view.hpp"

namespace crema::normalize {

/// What a forward pass normalized with, one a channel.
struct Statistics {
  double* mean;
  double* inverse_deviation;
};

struct StoreMean {
  double count;
  double* mean;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    mean[c] = sums.first / count;
  }
};

template <class T>
struct SquaredDeviation {
  const T* x;
  const double* mean;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t c) const {
    const double deviation = static_cast<double>(x[place]) - mean[c];
    return {deviation * deviation, 0};
  }
};

/// y = relu(scale * (x - mean) / deviation + bias); scale and bias may be null.
template <class T>
struct Normalize {
  Statistics statistics;
  const T* scale;
  const T* bias;
  bool relu;

  /// x - mean, which rounding the mean to T first would spoil where it is far from 0.
  CREMA_FUNCTOR T centred(T x, int64_t c) const {
    return static_cast<T>(static_cast<double>(x) - statistics.mean[c]);
  }
  CREMA_FUNCTOR T inverse(int64_t c) const {
    return static_cast<T>(statistics.inverse_deviation[c]);
  }
  CREMA_FUNCTOR T gain(int64_t c) const { return inverse(c) * (scale ? scale[c] : T{1}); }
  CREMA_FUNCTOR T before_relu(T x, int64_t c) const {
    return centred(x, c) * gain(c) + (bias ? bias[c] : T{0});
  }
};

template <class T>
struct Forward {
  Normalize<T> norm;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    const T z = norm.before_relu(x[i], c);
    y[i] = norm.relu && z < T{0} ? T{0} : z;
  }
};

/// The gradients may be null: not wanted.
template <class T>
struct StoreGradients {
  double count;
  SumPair* means;
  T* of_bias;
  T* of_scale;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    means[c] = {sums.first / count, sums.second / count};
    if (of_bias) of_bias[c] += static_cast<T>(sums.first);
    if (of_scale) of_scale[c] += static_cast<T>(sums.second);
  }
};

}  // namespace crema::normalize
