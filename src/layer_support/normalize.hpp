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

/// First the squared deviation from the mean, second the deviation.
template <class T>
struct SquaredDeviation {
  const T* x;
  const double* mean;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t c) const {
    const double deviation = static_cast<double>(x[place]) - mean[c];
    return {deviation * deviation, deviation};
  }
};

/// The variance, from the sums of SquaredDeviation. The deviations from the exact mean add up to 0:
/// what they add up to is the error of the rounded mean, which is corrected. 0 if no more than
/// rounding is left, which is so where all values are equal.
CREMA_FUNCTOR double variance_of(const SumPair& sums, double count, double& mean) {
  const double error = sums.second / count, squares = sums.first / count;
  mean += error;
  const double variance = squares - error * error;
  return variance <= 4 * 0x1p-52 * count * squares ? 0 : variance;  // NaN stays
}

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
