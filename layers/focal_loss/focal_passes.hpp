// FocalLoss as passes on either side: of a softmax over the classes, and of a sigmoid for each.
#pragma once

#include <cmath>

#include "core/axis_split.hpp"
#include "core/functor.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"

namespace crema {

/// The factor alpha (1 - p)^gamma of a logistic loss -log(p).
struct Focus {
  double alpha, gamma;

  /// x^gamma.
  CREMA_FUNCTOR double power(double x) const { return gamma == 2 ? x * x : std::pow(x, gamma); }

  /// -alpha (1 - p)^gamma log(p), of the logarithm of a probability.
  CREMA_FUNCTOR double value(double log_p) const {
    return -alpha * power(-std::expm1(log_p)) * log_p;
  }
  /// The derivative by log(p).
  CREMA_FUNCTOR double slope(double log_p) const {
    const double rest = -std::expm1(log_p);  // 1 - p
    const double raised = power(rest);
    const double by_power = rest > 0 ? gamma * raised / rest * std::exp(log_p) * log_p : 0;
    return alpha * (by_power - raised);
  }
};

/// What class c has of a position, in [0, 1]: of its label, or as given; smoothing is spread over
/// the `sides` answers that share it.
template <class T>
struct FocalTarget {
  double smoothing;
  int64_t sides;          // the classes of a softmax; the two sides of a sigmoid
  const T* weight;        // one a class; null: 1
  const int32_t* labels;  // -1: ignored
  const T* given;         // of the scores' shape, in place of labels; null: labels

  CREMA_FUNCTOR bool counts(int64_t position) const { return given || labels[position] >= 0; }
  CREMA_FUNCTOR double at(int64_t position, int64_t element, int64_t c) const {
    const double own = given ? static_cast<double>(given[element]) : labels[position] == c ? 1 : 0;
    return (1 - smoothing) * own + smoothing / static_cast<double>(sides);
  }
  CREMA_FUNCTOR double weight_of(int64_t c) const {
    return weight ? static_cast<double>(weight[c]) : 1;
  }
};

/// The loss of a position by a softmax: that of its classes, as the target weighs them.
template <class T>
struct SoftmaxFocalLoss {
  AxisSplit split;
  Focus focus;
  FocalTarget<T> target;
  const T* x;
  const double* log_sum;

  CREMA_FUNCTOR double log_p(int64_t i, int64_t element) const {
    return static_cast<double>(x[element]) - log_sum[i];
  }
  /// Whether only the label's class has a target.
  CREMA_FUNCTOR bool has_one_target() const { return !target.given && target.smoothing == 0; }
  /// The target of a class, and its weight.
  CREMA_FUNCTOR double share(int64_t i, int64_t element, int64_t c) const {
    return target.weight_of(c) * target.at(i, element, c);
  }
  CREMA_FUNCTOR double operator()(int64_t i) const {
    if (!target.counts(i)) return 0;
    if (has_one_target()) {
      const int64_t label = target.labels[i];
      return target.weight_of(label) * focus.value(log_p(i, split.at(i) + label * split.inner));
    }
    double loss = 0;
    for (int64_t c = 0; c < split.size; ++c) {
      const int64_t at = split.at(i) + c * split.inner;
      const double part = share(i, at, c);
      // A class that cannot be has a score of -inf.
      if (part != 0) loss += part * focus.value(log_p(i, at));
    }
    return loss;
  }
};

/// dx_c = scale * (share_c slope_c - probability_c * the sum of share * slope).
template <class T>
struct SoftmaxFocalGradient {
  SeedFactor<T, double> scale;
  SoftmaxFocalLoss<T> loss;
  const T* probability;
  T* dx;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) (*this)(i);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const AxisSplit& split = loss.split;
    if (!loss.target.counts(i)) {
      for (int64_t c = lanes.first; c < split.size; c += lanes.count)
        dx[split.at(i) + c * split.inner] = T{0};
      return;
    }
    if (loss.has_one_target()) {
      const int64_t label = loss.target.labels[i];
      const double log_p = loss.log_p(i, split.at(i) + label * split.inner);
      const T factor =
          static_cast<T>(scale * loss.target.weight_of(label) * loss.focus.slope(log_p));
      for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
        const int64_t at = split.at(i) + c * split.inner;
        dx[at] = factor * ((c == label ? T{1} : T{0}) - probability[at]);
      }
      return;
    }
    double sum = 0;
    for (int64_t c = lanes.first; c < split.size; c += lanes.count)
      sum += slope(i, split.at(i) + c * split.inner, c);
    sum = lanes.sum(sum);
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      dx[at] =
          static_cast<T>(scale * (slope(i, at, c) - static_cast<double>(probability[at]) * sum));
    }
  }
  CREMA_FUNCTOR double slope(int64_t i, int64_t at, int64_t c) const {
    const double part = loss.share(i, at, c);
    return part == 0 ? 0 : part * loss.focus.slope(loss.log_p(i, at));
  }
};

/// The position and the class of an element, which next() moves on without a division.
struct FocalPlace {
  CREMA_FUNCTOR FocalPlace(const AxisSplit& split, int64_t element)
      : size(split.size), inner(split.inner), k(element % inner), c(element / inner % size) {
    position = element / (inner * size) * inner + k;
  }
  CREMA_FUNCTOR void next() {
    ++position;
    if (++k < inner) return;
    k = 0;
    if (++c < size) {
      position -= inner;
    } else {
      c = 0;
    }
  }

  int64_t size, inner;
  int64_t k;  // along the inner axis
  int64_t c, position;
};

/// The loss of a score by its sigmoid. For a target t, with p of the target and of its opposite in
/// these shares, alpha t + (1 - alpha) (1 - t) takes the place of alpha.
template <class T>
struct SigmoidFocalLoss {
  AxisSplit split;
  Focus focus;
  FocalTarget<T> target;
  const T* x;

  CREMA_FUNCTOR double factor(int64_t c, double t) const {
    return target.weight_of(c) * (focus.alpha * t + (1 - focus.alpha) * (1 - t));
  }
  /// -log of the probability of the target.
  static CREMA_FUNCTOR double entropy(double x, double t) {
    return (x > 0 ? x : 0) - x * t + std::log1p(std::exp(x > 0 ? -x : x));
  }
  /// 1 - the probability of the target.
  static CREMA_FUNCTOR double rest(double x, double t) {
    return sigmoid(x) * (1 - t) + sigmoid(-x) * t;
  }
  CREMA_FUNCTOR double operator()(int64_t element) const {
    return at(element, FocalPlace(split, element));
  }
  double on_host(int64_t begin, int64_t end) const {
    FocalPlace place(split, begin);
    return sum_of_piece(begin, end, [&](int64_t element) {
      const double loss = at(element, place);
      place.next();
      return loss;
    });
  }
  CREMA_FUNCTOR double at(int64_t element, const FocalPlace& place) const {
    if (!target.counts(place.position)) return 0;
    const double t = target.at(place.position, element, place.c);
    const double score = static_cast<double>(x[element]);
    return factor(place.c, t) * focus.power(rest(score, t)) * entropy(score, t);
  }
};

template <class T>
struct SigmoidFocalGradient {
  SeedFactor<T, double> scale;
  SigmoidFocalLoss<T> loss;
  T* dx;

  CREMA_FUNCTOR void operator()(int64_t element) const {
    set(element, FocalPlace(loss.split, element));
  }
  void on_host(int64_t begin, int64_t end) const {
    FocalPlace place(loss.split, begin);
    for (int64_t element = begin; element < end; ++element) {
      set(element, place);
      place.next();
    }
  }
  CREMA_FUNCTOR void set(int64_t element, const FocalPlace& place) const {
    using Loss = SigmoidFocalLoss<T>;
    if (!loss.target.counts(place.position)) {
      dx[element] = T{0};
      return;
    }
    const int64_t c = place.c;
    const double t = loss.target.at(place.position, element, c);
    const double x = static_cast<double>(loss.x[element]);
    const double p = sigmoid(x), not_p = sigmoid(-x), rest = Loss::rest(x, t);
    // The derivative of rest^gamma. p (1 - p) is no more than rest, and rest^(gamma - 1) may
    // overflow.
    const double by_power =
        rest > 0 ? loss.focus.gamma * (1 - 2 * t) * (p * not_p / rest) * Loss::entropy(x, t) : 0;
    const double away = p * (1 - t) - not_p * t;  // p - t
    dx[element] =
        static_cast<T>(scale * loss.factor(c, t) * loss.focus.power(rest) * (by_power + away));
  }
};

/// The probability of each score by its sigmoid.
template <class T>
struct Probabilities {
  const T* x;
  T* probability;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    probability[i] = static_cast<T>(sigmoid(static_cast<double>(x[i])));
  }
};

}  // namespace crema
