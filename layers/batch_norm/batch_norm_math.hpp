// The mathematics of BatchNorm: functors over channels and over elements of a ChannelView.
#pragma once

#include "backend/channel_view.hpp"

namespace crema::batch_norm {

/// What a forward pass normalized with, one a channel.
struct Statistics {
  double* mean;
  double* inverse_deviation;
};

/// Body for channels: the statistics are those stored.
template <class T>
struct TakeStored {
  const T* mean;
  const T* variance;
  const T* factor;
  double epsilon;
  Statistics statistics;
  CREMA_FUNCTOR void operator()(int64_t c) const {
    const double scale = factor[0] == T{0} ? 0 : 1 / static_cast<double>(factor[0]);
    statistics.mean[c] = scale * static_cast<double>(mean[c]);
    statistics.inverse_deviation[c] =
        1 / std::sqrt(scale * static_cast<double>(variance[c]) + epsilon);
  }
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

/// Completes the batch's statistics and moves the stored ones, of which the variance is the
/// unbiased one, towards them.
template <class T>
struct StoreVariance {
  double count, fraction, epsilon;
  bool moves;  // false: they were moved already, and the pass is a repetition
  Statistics statistics;
  T* mean;
  T* variance;
  T* factor;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    set(c, sums.first / count);
  }
  CREMA_FUNCTOR void set(int64_t c, double of_batch) const {
    statistics.inverse_deviation[c] = 1 / std::sqrt(of_batch + epsilon);
    if (!moves) return;
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    mean[c] = static_cast<T>(fraction * static_cast<double>(mean[c]) + statistics.mean[c]);
    variance[c] = static_cast<T>(fraction * static_cast<double>(variance[c]) + unbiased * of_batch);
    if (c == 0) factor[0] = static_cast<T>(fraction * static_cast<double>(factor[0]) + 1);
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

/// d, the gradient behind the ReLU, and the normalized value. x may be null: it is read where
/// something depends on it.
template <class T>
struct Incoming {
  Normalize<T> norm;
  const T* dy;
  const T* x;
  CREMA_FUNCTOR T d(int64_t i, int64_t c) const {
    const T gradient = dy[i];
    return !norm.relu || norm.before_relu(x[i], c) > T{0} ? gradient : T{0};
  }
  CREMA_FUNCTOR T normal(int64_t i, int64_t c) const {
    return x ? norm.centred(x[i], c) * norm.inverse(c) : T{0};
  }
  /// Of d, and of d * normal.
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t c) const {
    const double gradient = static_cast<double>(d(place, c));
    return {gradient, gradient * static_cast<double>(normal(place, c))};
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

/// dx = scale / deviation * (d - mean(d) - normal * mean(d * normal)); the means are 0 where the
/// statistics do not depend on x. `means` is null then. dx may be dy.
template <class T>
struct DataGradient {
  Incoming<T> in;
  const SumPair* means;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    T centred = in.d(i, c);
    if (means) {
      centred -= static_cast<T>(means[c].first) + in.normal(i, c) * static_cast<T>(means[c].second);
    }
    dx[i] = in.norm.gain(c) * centred;
  }
};

}  // namespace crema::batch_norm
