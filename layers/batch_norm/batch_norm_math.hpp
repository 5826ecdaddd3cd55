// The mathematics of BatchNorm: functors over channels and over elements of a ChannelView.
#pragma once

#include "core/device_report.hpp"
#include "layer_support/normalize.hpp"

namespace crema::batch_norm {

using namespace normalize;

/// Body for channels: the statistics are those stored. `factor` may be null: 1. `mean` and
/// `variance` may be null: 0 and 1, which epsilon does not change.
template <class T>
struct TakeStored {
  const T* mean;
  const T* variance;
  const T* factor;
  double epsilon;
  Statistics statistics;
  CREMA_FUNCTOR void operator()(int64_t c) const {
    if (!mean) {
      statistics.mean[c] = 0;
      statistics.inverse_deviation[c] = 1;
      return;
    }
    const double divisor = factor ? static_cast<double>(factor[0]) : 1;
    const double scale = divisor == 0 ? 0 : 1 / divisor;
    statistics.mean[c] = scale * static_cast<double>(mean[c]);
    statistics.inverse_deviation[c] =
        1 / std::sqrt(scale * static_cast<double>(variance[c]) + epsilon);
  }
};

/// Completes the batch's statistics and moves the stored ones, of which the variance is the
/// unbiased one, towards them: sums of the batches with a factor, moving averages without.
template <class T>
struct StoreVariance {
  double count, fraction, epsilon;
  bool moves;           // false: they were moved already, and the pass is a repetition
  const RunBlock* run;  // of a device: behind a failure, nothing moves; null on the host
  Statistics statistics;
  T* mean;
  T* variance;
  T* factor;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    set(c, normalize::variance_of(sums, count, statistics.mean[c]));
  }
  CREMA_FUNCTOR void set(int64_t c, double of_batch) const {
    statistics.inverse_deviation[c] = 1 / std::sqrt(of_batch + epsilon);
    if (!moves || (run != nullptr && run->failed())) return;
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    const double share = factor ? 1 : 1 - fraction;
    const auto move = [&](T& stored, double value) {
      stored = static_cast<T>(fraction * static_cast<double>(stored) + share * value);
    };
    move(mean[c], statistics.mean[c]);
    move(variance[c], unbiased * of_batch);
    if (factor && c == 0) factor[0] = static_cast<T>(fraction * static_cast<double>(factor[0]) + 1);
  }
};

/// y = relu(scale * (x - mean) / deviation + bias + add). y may be x or add.
template <class T>
struct ForwardSum {
  Normalize<T> norm;
  const T* x;
  const T* add;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    const T z = norm.before_relu(x[i], c) + add[i];
    y[i] = norm.relu && z < T{0} ? T{0} : z;
  }
};

/// d, the gradient behind the ReLU, and the normalized value. x may be null: it is read where
/// something depends on it. The sign before the ReLU is that of y, or, if y is null, computed again
/// from x.
template <class T>
struct Incoming {
  Normalize<T> norm;
  const T* dy;
  const T* x;
  const T* y;
  CREMA_FUNCTOR T d(int64_t i, int64_t c) const {
    const T gradient = dy[i];
    if (!norm.relu) return gradient;
    return (y ? y[i] : norm.before_relu(x[i], c)) > T{0} ? gradient : T{0};
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

/// dx = scale / deviation * (d - mean(d) - normal * mean(d * normal)); the means are 0 where the
/// statistics do not depend on x. `means` is null then. The gradient of what was added is d. Both
/// may be null: not wanted; one of them may be dy.
template <class T>
struct DataGradient {
  Incoming<T> in;
  const SumPair* means;
  T* dx;
  T* d_add;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    const T d = in.d(i, c);
    if (dx) {
      T centred = d;
      if (means) {
        centred -=
            static_cast<T>(means[c].first) + in.normal(i, c) * static_cast<T>(means[c].second);
      }
      dx[i] = in.norm.gain(c) * centred;
    }
    if (d_add) d_add[i] = d;
  }
};

}  // namespace crema::batch_norm
