// The losses of MultiBoxLoss and their gradients, as passes on either side: over the values of
// matched locations, and over the positions (the priors of all images) whose scores count.
#pragma once

#include <algorithm>
#include <type_traits>

#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layers/multibox_loss/location_math.hpp"
#include "layers/multibox_loss/score_kernels.hpp"
#include "layers/softmax/softmax_passes.hpp"

namespace crema {

/// The loss of a value of a matched location.
struct LocationLoss {
  LocationMath math;
  const double* difference;
  CREMA_FUNCTOR double operator()(int64_t i) const { return math.value(difference[i]); }
};

/// Its gradient. Each place occurs once.
template <class T>
struct LocationGradient {
  LocationMath math;
  SeedFactor<T, double> scale;
  const double *difference, *factor;
  const int64_t* places;  // of matched locations, in the locations of the batch
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    dx[places[i / kEdges] * kEdges + i % kEdges] =
        static_cast<T>(scale * factor[i] * math.slope(difference[i]));
  }
};

/// The logarithm of the sum of exponentials of each prior's scores, and the loss of a prior without
/// a match.
template <class T>
struct FindSums {
  SoftmaxForward<T> softmax;
  int64_t background;
  T* loss;

  /// `softmax` leaves its scores in cache.
  void on_host(int64_t begin, int64_t end) const {
    constexpr int64_t kTogether = 256;
    for (; begin < end; begin += kTogether) {
      const int64_t last = std::min(end, begin + kTogether);
      softmax.on_host(begin, last);
      for (int64_t i = begin; i < last; ++i) find_loss(i);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    softmax(i, lanes);
    if (lanes.first == 0) find_loss(i);
  }
  CREMA_FUNCTOR void find_loss(int64_t i) const {
    const auto score = static_cast<double>(softmax.x[i * softmax.split.size + background]);
    loss[i] = static_cast<T>(softmax.log_sum[i] - score);
  }
};

/// The softmax loss of the positions that count.
template <class T>
struct ScoreLoss {
  int64_t classes;
  const int64_t* counted;
  const T* x;
  const double* log_sum;
  const int32_t* labels;
  const T* weight;  // one a class; null: 1
  CREMA_FUNCTOR double operator()(int64_t i) const { return of(counted[i]); }
  CREMA_FUNCTOR double of(int64_t p) const {
    const double loss = log_sum[p] - static_cast<double>(x[p * classes + labels[p]]);
    return weight ? static_cast<double>(weight[labels[p]]) * loss : loss;
  }
};

/// Its gradient, for all positions.
template <class T>
struct ScoreGradient {
  int64_t classes, count;
  const int64_t* counted;
  SeedFactor<T> scale;
  const T* x;
  const double* log_sum;
  const int32_t* labels;
  const T* weight;  // one a class; null: 1
  T* dx;

  /// Those that count are written while the zeros are in cache.
  void on_host(int64_t begin, int64_t end) const {
    constexpr int64_t kTogether = 512;
    const int64_t* next = std::lower_bound(counted, counted + count, begin);
    for (; begin < end; begin += kTogether) {
      const int64_t behind = std::min(end, begin + kTogether);
      const int64_t* const last = std::lower_bound(next, counted + count, behind);
      if (last - next < behind - begin)
        std::fill(dx + begin * classes, dx + behind * classes, T{0});
      write(next, last);
      next = last;
    }
  }
  void write(const int64_t* first, const int64_t* last) const {
    if constexpr (std::is_same_v<T, float>) {
      if (!weight)
        return score_gradients(first, last - first, classes, scale, x, log_sum, labels, dx);
    }
    for (const int64_t* p = first; p < last; ++p) (*this)(*p);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t p, const Lanes& lanes = {}) const {
    const T factor = weight && labels[p] >= 0 ? scale * weight[labels[p]] : T{scale};
    for (int64_t c = lanes.first; c < classes; c += lanes.count) {
      const double share = exp(static_cast<double>(x[p * classes + c]) - log_sum[p]);
      const double slope = factor * (share - (c == labels[p] ? 1 : 0));
      dx[p * classes + c] = labels[p] < 0 ? T{0} : static_cast<T>(slope);
    }
  }
};

// Where a device finds the targets, and the host knows no numbers of them: all locations and
// positions, of which most have no loss.

struct StoredLoss {
  const double* loss;
  CREMA_FUNCTOR double operator()(int64_t i) const { return loss[i]; }
};

/// The softmax loss of position i; `counted` is not read.
template <class T>
struct LabelledLoss {
  ScoreLoss<T> each;
  CREMA_FUNCTOR double operator()(int64_t p) const { return each.labels[p] < 0 ? 0 : each.of(p); }
};

template <class T>
struct DivideParts {
  const double* sums;  // of locations and scores
  double location_weight;
  LossDivisor divisor;
  T* loss;
  CREMA_FUNCTOR void operator()(int64_t) const {
    const double by = divisor.value();
    loss[0] = static_cast<T>(location_weight / by * sums[0]) + static_cast<T>(1 / by * sums[1]);
  }
};

/// The gradient of locations from the slopes of their losses.
template <class T>
struct StoredSlope {
  SeedFactor<T, double> weight;
  double location_weight;
  LossDivisor divisor;
  const double* slope;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    dx[i] = static_cast<T>(weight / divisor.value() * location_weight * slope[i]);
  }
};

template <class T>
struct LabelledGradient {
  ScoreGradient<T> each;  // without its scale
  SeedFactor<T, double> weight;
  LossDivisor divisor;
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t p, const Lanes& lanes = {}) const {
    ScoreGradient<T> scaled = each;
    scaled.scale = {weight / divisor.value(), nullptr};
    scaled(p, lanes);
  }
};

template <class T>
struct AddParts {
  const T* parts;
  T* loss;
  CREMA_FUNCTOR void operator()(int64_t i) const { loss[i] = parts[0] + parts[1]; }
};

}  // namespace crema
