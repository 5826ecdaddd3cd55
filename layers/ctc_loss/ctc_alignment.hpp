// The probability of a label sequence, summed over its alignments with the steps (CTC), and how
// much each class of each step takes part in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crema {

/// Steps of one sequence, `stride` values apart: scores of `classes`, and log of the sum of their
/// exponentials, `log_stride` apart.
template <class T>
struct CtcScores {
  const T* scores;
  int64_t stride;
  const double* log_sums;
  int64_t log_stride;
  int64_t steps;

  double log_probability(int64_t t, int32_t c) const {
    return static_cast<double>(scores[t * stride + c]) - log_sums[t * log_stride];
  }
};

/// Scratch memory of a thread, and the computation. Memory grows to the largest sequence.
class CtcAlignment {
 public:
  /// Steps that a label sequence takes at least: one for each class, and a blank between repeated
  /// classes if those are merged.
  static int64_t least_steps(std::span<const int32_t> label, bool merges);

  /// log of the probability of `label`; -infinity if there is no alignment. If `shares` is not
  /// null, for each step and class that the label or the blank has, subtracts from shares[t *
  /// scores.stride + class] the share of the probability whose path is there.
  template <class T>
  double align(const CtcScores<T>& scores, std::span<const int32_t> label, int32_t blank,
               bool merges, T* shares);

  size_t bytes() const {
    return (rows_.capacity() + forward_.capacity()) * sizeof(double) +
           (classes_.capacity() + reversed_classes_.capacity()) * sizeof(int32_t);
  }

 private:
  void set_label(std::span<const int32_t> label, int32_t blank, bool merges);
  double* row(int k) { return rows_.data() + k * (states_ + 2) + 2; }

  int64_t states_ = 0;
  std::vector<int32_t> classes_,
      reversed_classes_;  // of the states, and from the last to the first
  // Rows of (states): see the names in the source. Each has two values of -infinity before it.
  std::vector<double> rows_;
  std::vector<double> forward_;  // (steps, states) with those values
};

}  // namespace crema
