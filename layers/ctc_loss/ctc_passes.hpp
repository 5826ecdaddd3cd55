// CTCLoss on a device: a block for each sequence and direction, whose threads share the states of a
// step, and a block for each step. For sources that include layer_support/passes.hpp. The host has
// CtcAlignment.
#pragma once

#include <limits>

#include "layer_support/blocks.hpp"

namespace crema {

/// The sequences of a batch, in the memory of the device.
struct CtcBatch {
  int64_t steps, batch, classes;  // T, N, C of the scores
  int64_t labels;                 // L, of the longest label at most
  int64_t first;                  // step
  int32_t blank;
  bool merges;
  // (N) steps that count, from `first` on; (N) classes of the labels; (N, L) labels; (N, L) the
  // places of a label, by class
  const int32_t *used, *lengths, *classes_of, *order;

  CREMA_FUNCTOR int64_t most_states() const { return 2 * labels + 1; }
  CREMA_FUNCTOR int32_t class_of(int64_t n, int64_t state) const {
    return state % 2 == 1 ? classes_of[n * labels + state / 2] : blank;
  }
  /// Of a step of a sequence, counted from `first` on, among all steps.
  CREMA_FUNCTOR int64_t position(int64_t t, int64_t n) const { return (first + t) * batch + n; }
};

/// Item n < N: paths(0, t, n, s), the log of the sum of the paths that are in state s at step t,
/// from the first step on, and the log of the probability of the label; NaN if scores are no
/// numbers. Item N + n: paths(1, t, n, s), of those from the last step on. Both with what the step
/// itself emits. The states are those of ctc_steps.hpp.
template <class T>
struct CtcPaths {
  CtcBatch of;
  const T* x;
  const double* log_sums;   // (T, N)
  int64_t rows;             // of a direction: T, or 2, which are used in turn
  double* paths;            // (directions, rows, N, states)
  double* log_probability;  // (N)

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNever = -kInfinity;
  static CREMA_FUNCTOR bool is_finite(double value) { return abs(value) < kInfinity; }

  static CREMA_FUNCTOR double larger(double a, double b) { return a < b ? b : a; }
  static CREMA_FUNCTOR double log_sum(double a, double b, double c) {
    const double largest = larger(a, larger(b, c));
    if (largest == kNever) return kNever;
    return largest + log(exp(a - largest) + exp(b - largest) + exp(c - largest));
  }

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const bool reversed = item >= of.batch;
    const int64_t n = item % of.batch, steps = of.used[n], states = 2 * of.lengths[n] + 1;
    double bad = 0;
    for (int64_t t = lanes.first; t < steps; t += lanes.count) {
      if (!is_finite(log_sums[of.position(t, n)])) bad = 1;
    }
    bad = lanes.max(bad);
    if (bad > 0 || steps == 0) {
      if (lanes.first == 0 && !reversed)
        log_probability[n] = bad > 0 ? std::numeric_limits<double>::quiet_NaN() : kNever;
      return;
    }
    const int64_t width = of.most_states();
    double* const all = paths + (reversed ? rows * of.batch * width : 0) + n * width;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t t = reversed ? steps - 1 - step : step, position = of.position(t, n);
      double* const row = all + t % rows * of.batch * width;
      const double* const before =
          all + (reversed ? t + 1 : t - 1 + rows) % rows * of.batch * width;
      // State k of the direction is state s of the label.
      for (int64_t k = lanes.first; k < states; k += lanes.count) {
        const int64_t s = reversed ? states - 1 - k : k, back = reversed ? 1 : -1;
        const int32_t own = of.class_of(n, s);
        double reached = k < 2 ? 0 : kNever;
        if (step > 0) {
          const bool is_label = s % 2 == 1;
          const bool skips =
              is_label && k >= 3 && (!of.merges || own != of.class_of(n, s + 2 * back));
          reached =
              log_sum(!is_label || of.merges ? before[s] : kNever,
                      k > 0 ? before[s + back] : kNever, skips ? before[s + 2 * back] : kNever);
        }
        row[s] = reached + static_cast<double>(x[position * of.classes + own]) - log_sums[position];
      }
      lanes.wait();
    }
    if (reversed || lanes.first != 0) return;
    const double* const last = all + (steps - 1) % rows * of.batch * width;
    log_probability[n] = log_sum(last[states - 1], states > 1 ? last[states - 2] : kNever, kNever);
  }
};

/// Item (t, n) of all steps: the softmax of the scores less, for each class, the share of the paths
/// that are there. Steps that do not count get zeros.
template <class T>
struct CtcShares {
  CtcBatch of;
  const T* x;
  const double *log_sums, *paths, *log_probability;
  T* gradient;  // (T, N, C): the softmax before

  /// Of the paths that are in a state at the step.
  CREMA_FUNCTOR double share(int64_t t, int64_t n, int64_t state, double total) const {
    constexpr double kNever = CtcPaths<T>::kNever;
    const int64_t width = of.most_states(), at = (t * of.batch + n) * width + state;
    const double there = paths[at], back = paths[of.steps * of.batch * width + at];
    if (there == kNever || back == kNever) return 0;
    const int64_t position = of.position(t, n);
    const double emitted =
        static_cast<double>(x[position * of.classes + of.class_of(n, state)]) - log_sums[position];
    return exp(there + back - emitted - total);
  }

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const int64_t t = item / of.batch - of.first, n = item % of.batch, length = of.lengths[n];
    const double total = log_probability[n];
    T* const row = gradient + item * of.classes;
    if (t < 0 || t >= of.used[n] || !CtcPaths<T>::is_finite(total)) {
      for (int64_t c = lanes.first; c < of.classes; c += lanes.count) row[c] = 0;
      return;
    }
    double blanks = 0;
    for (int64_t i = lanes.first; i <= length; i += lanes.count)
      blanks += share(t, n, 2 * i, total);
    blanks = lanes.sum(blanks);
    if (lanes.first == 0) row[of.blank] -= static_cast<T>(blanks);
    // The first place of a class adds up all of them.
    const int32_t* const order = of.order + n * of.labels;
    const int32_t* const label = of.classes_of + n * of.labels;
    for (int64_t i = lanes.first; i < length; i += lanes.count) {
      const int32_t own = label[order[i]];
      if (i > 0 && label[order[i - 1]] == own) continue;
      double sum = 0;
      for (int64_t k = i; k < length && label[order[k]] == own; ++k)
        sum += share(t, n, 2 * order[k] + 1, total);
      row[own] -= static_cast<T>(sum);
    }
  }
};

}  // namespace crema
