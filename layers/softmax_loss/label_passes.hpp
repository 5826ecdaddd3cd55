// SoftmaxWithLoss of positions with a label each, as passes on either side: after SoftmaxForward
// (layers/softmax/softmax_passes.hpp). A label of -1 has no loss.
#pragma once

#include <algorithm>

#include "core/axis_split.hpp"
#include "core/functor.hpp"
#include "layer_support/loss_seed.hpp"

namespace crema {

/// The target of a position of label l: weight_c times (1 - smoothing, if c = l, and smoothing
/// spread over all classes evenly).
template <class T>
struct LabelTarget {
  double smoothing;
  const T* weight;  // one a class; null: 1
  const T* mass;    // of a label: the sum of its targets; null: 1

  CREMA_FUNCTOR double label_target(int64_t classes) const {
    return 1 - smoothing + other_target(classes);
  }
  CREMA_FUNCTOR double other_target(int64_t classes) const {
    return smoothing / static_cast<double>(classes);
  }
};

/// The loss of one position: the log of the sum of exponentials, less the scores, as the target
/// weighs them.
template <class T, class In = const T*>
struct SoftmaxLabelLoss {
  AxisSplit split;
  LabelTarget<T> target;
  In x;
  const double* log_sum;
  const int32_t* labels;

  CREMA_FUNCTOR double operator()(int64_t i) const {
    const int32_t label = labels[i];
    if (label < 0) return 0;
    const In scores = x + split.at(i);
    const auto term = [&](int64_t c) {
      const double loss = log_sum[i] - static_cast<double>(scores[c * split.inner]);
      return target.weight ? static_cast<double>(target.weight[c]) * loss : loss;
    };
    const double own = (1 - target.smoothing) * term(label);
    const double spread = target.other_target(split.size);
    double others = 0;
    for (int64_t c = 0; spread > 0 && c < split.size; ++c) others += term(c);
    return own + spread * others;
  }
};

/// dx = scale * (sum of the target * probability - target).
template <class T, class Out = T*>
struct SoftmaxLabelGradient {
  AxisSplit split;
  LabelTarget<T> target;
  T scale;
  const T* probability;
  const int32_t* labels;
  Out dx;
  // On a device, the scale is weight / max(*count, 1); without a count, weight.
  const double* count = nullptr;
  SeedFactor<T, double> weight = {};

  struct Targets {
    T own, other;
  };
  CREMA_FUNCTOR Targets targets() const {
    return {static_cast<T>(target.label_target(split.size)),
            static_cast<T>(target.other_target(split.size))};
  }
  template <bool kWeighted>
  CREMA_FUNCTOR T gradient(const Targets& targets, int64_t at, int32_t c, int32_t label) const {
    T share = c == label ? targets.own : targets.other, mass = probability[at];
    if constexpr (kWeighted) {
      share *= target.weight[c];
      mass *= target.mass[label < 0 ? 0 : label];
    }
    const T value = scale * (mass - share);
    return label < 0 ? T{0} : value;
  }

  void on_host(int64_t begin, int64_t end) const {
    if (target.weight) {
      on_host<true>(begin, end);
    } else {
      on_host<false>(begin, end);
    }
  }
  template <bool kWeighted>
  void on_host(int64_t begin, int64_t end) const {
    const Targets given = targets();
    if (split.inner == 1) {
      for (int64_t i = begin; i < end; ++i) position<kWeighted>(given, i);
      return;
    }
    for (int64_t i = begin; i < end;) {
      const int64_t run = std::min(split.inner - i % split.inner, end - i);
      for (int32_t c = 0; c < split.size; ++c) {
        const int64_t at = split.at(i) + c * split.inner;
#pragma omp simd
        for (int64_t j = 0; j < run; ++j) {
          dx[at + j] = gradient<kWeighted>(given, at + j, c, labels[i + j]);
        }
      }
      i += run;
    }
  }
  /// A position whose classes are neighbours, on the host.
  template <bool kWeighted>
  void position(const Targets& given, int64_t i) const {
    const int64_t begin = i * split.size, end = begin + split.size;
    const int32_t label = labels[i];
    if (label < 0) {
      std::fill(dx + begin, dx + end, T{0});
      return;
    }
    const T mass = kWeighted ? target.mass[label] : T{1};
#pragma omp simd
    for (int64_t at = begin; at < end; ++at) {
      const T other = kWeighted ? target.weight[at - begin] * given.other : given.other;
      dx[at] = scale * (mass * probability[at] - other);
    }
    dx[begin + label] = gradient<kWeighted>(given, begin + label, label, label);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const Targets given = targets();
    SoftmaxLabelGradient scaled = *this;
    if (weight.seed != nullptr)
      scaled.scale = static_cast<T>(weight / (count != nullptr && *count > 1 ? *count : 1));
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      const auto number = static_cast<int32_t>(c);
      dx[at] = target.weight ? scaled.template gradient<true>(given, at, number, labels[i])
                             : scaled.template gradient<false>(given, at, number, labels[i]);
    }
  }
};

}  // namespace crema
