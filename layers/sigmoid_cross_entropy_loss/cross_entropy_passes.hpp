// SigmoidCrossEntropyLoss as passes on either side.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/functor.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/sum_of_piece.hpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_kernels.hpp"

namespace crema {

namespace cross_entropy_math {
#include "layers/sigmoid_cross_entropy_loss/cross_entropy-inl.hpp"
}  // namespace cross_entropy_math

/// The target `ignored` has no loss; NaN ignores none.
template <class T>
struct CrossEntropyLoss {
  const T *x, *t;
  T ignored;

  CREMA_FUNCTOR double operator()(int64_t i) const {
    return t[i] == ignored ? 0 : static_cast<double>(cross_entropy_math::loss_of(x[i], t[i]));
  }
  double on_host(int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<T, float>) {
      return cross_entropy(end - begin, x + begin, t + begin, ignored);
    } else {
      return sum_of_piece(begin, end, [this](int64_t i) { return (*this)(i); });
    }
  }
};

/// A divisor in the memory of the device, which a device counted; null for 1.
struct CountedTargets {
  const double* count;
  CREMA_FUNCTOR double divisor() const { return count && *count > 1 ? *count : 1; }
};

template <class T>
struct CrossEntropyGradient {
  SeedFactor<T, double> weight;
  CountedTargets valid;
  const T *x, *t;
  T ignored;
  T* dx;

  CREMA_FUNCTOR T scale() const { return static_cast<T>(weight / valid.divisor()); }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    dx[i] = t[i] == ignored ? T{0} : scale() * cross_entropy_math::slope_of(x[i], t[i]);
  }
  void on_host(int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<T, float>) {
      cross_entropy_gradient(end - begin, scale(), x + begin, t + begin, ignored, dx + begin);
    } else {
      for (int64_t i = begin; i < end; ++i) (*this)(i);
    }
  }
};

/// Weights of classes whose scores lie `inner` values apart.
template <class T>
struct ClassFactors {
  const T* weight;
  int64_t classes, inner;
  CREMA_FUNCTOR T of(int64_t i) const { return weight[i / inner % classes]; }

  /// Calls body(first, last, the weight) for the runs of scores of one class in [begin, end).
  template <class Body>
  void for_runs(int64_t begin, int64_t end, const Body& body) const {
    if (begin == end) return;
    int64_t c = begin / inner % classes, last = begin / inner * inner;
    for (int64_t first = begin; first < end; first = last) {
      last += inner;
      body(first, std::min(last, end), weight[c]);
      if (++c == classes) c = 0;
    }
  }
};

/// Shorter runs of scores of one class are not worth a call.
constexpr int64_t kLeastClassRun = 16;

template <class T>
struct WeightedCrossEntropyLoss {
  CrossEntropyLoss<T> each;
  ClassFactors<T> factors;
  CREMA_FUNCTOR double operator()(int64_t i) const {
    return static_cast<double>(factors.of(i)) * each(i);
  }
  double on_host(int64_t begin, int64_t end) const {
    if (factors.inner < kLeastClassRun)
      return sum_of_piece(begin, end, [this](int64_t i) { return (*this)(i); });
    double loss = 0;
    factors.for_runs(begin, end, [&](int64_t first, int64_t last, T weight) {
      loss += static_cast<double>(weight) * each.on_host(first, last);
    });
    return loss;
  }
};

template <class T>
struct WeightedCrossEntropyGradient {
  CrossEntropyGradient<T> each;
  ClassFactors<T> factors;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    each(i);
    each.dx[i] *= factors.of(i);
  }
  void on_host(int64_t begin, int64_t end) const {
    each.on_host(begin, end);
    factors.for_runs(begin, end, [this](int64_t first, int64_t last, T weight) {
      for (int64_t i = first; i < last; ++i) each.dx[i] *= weight;
    });
  }
};

}  // namespace crema
