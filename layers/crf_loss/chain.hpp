// A linear-chain conditional random field: the recursions of one sequence. A path of classes
// y_0, ..., y_{L-1} has the score
//   first(y_0) + x_0(y_0) + A(y_0, y_1) + x_1(y_1) + ... + last(y_{L-1}).
#pragma once

#include <cstdint>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

/// Sums of products of powers below this may have lost terms; they are computed in logarithms.
inline constexpr double kLeastSum = 1e-200;

/// A run of steps of one column of the batch.
struct ChainSequence {
  int64_t column, first, steps;
};

/// Sequences of a batch (T, N), by columns. One begins at step 0, where `cont` (may be null) is 0,
/// and behind a step that is left out. `used`: one for each step and column, may be null: all are.
/// Error if an indicator is neither 0 nor 1.
void find_sequences(int64_t steps, int64_t batch, const Tensor* cont, const std::vector<bool>* used,
                    std::vector<ChainSequence>& sequences);

/// Error unless the blob is (steps, sequences, classes); returns that shape.
Shape chain_shape(const Blob& scores);
/// Error unless the blob is (T, N) as the scores are. `what`: "labels".
void check_like_scores(const Blob& blob, const Blob& scores, const char* what);

/// The parameters in double, and what the recursions need of them.
class ChainWeights {
 public:
  /// transitions (C, C), from a row's class to a column's; first and last (C), or null for zeros.
  /// Error if one is NaN or infinite.
  void set(const Tensor& transitions, const Tensor* first, const Tensor* last);

  int64_t classes() const { return classes_; }
  const double* transitions() const { return transitions_.data(); }
  const double* first() const { return first_.data(); }
  const double* last() const { return last_.data(); }
  /// exp(transition - the largest one into the same class), and these largest ones.
  const double* powers_into() const { return powers_into_.data(); }
  const double* largest_into() const { return largest_into_.data(); }
  /// The same for those out of a class.
  const double* powers_from() const { return powers_from_.data(); }
  const double* largest_from() const { return largest_from_.data(); }
  size_t bytes() const;

 private:
  int64_t classes_ = 0;
  std::vector<double> transitions_, first_, last_;
  std::vector<double> powers_into_, largest_into_, powers_from_, largest_from_;
};

/// Sums of the gradients of minus the log of probabilities, in double.
struct ChainGradients {
  std::vector<double> transitions, first, last;
  std::vector<double> scaled;  // (C, C): a part of transitions, to be multiplied by powers_from()

  void clear(int64_t classes);
  /// Moves `scaled` to transitions.
  void finish(const ChainWeights& weights);
  size_t bytes() const;
};

/// Scratch memory of a thread, and the recursions. Scores x are (steps, C), rows `stride` apart.
class Chain {
 public:
  /// Minus the log of the probability of `labels`, which are label_stride apart. If `shares` is not
  /// null, also writes the gradient of the scores there, with rows `stride` apart, and adds those
  /// of the parameters.
  template <class T>
  double loss(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps,
              const int32_t* labels, int64_t label_stride, T* shares, ChainGradients* gradients);

  /// Writes the path of the highest score, `path_stride` apart, the lower class of equal ones.
  template <class T>
  void best_path(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps, T* path,
                 int64_t path_stride);

  size_t bytes() const;

 private:
  /// forward_ and its sum over all paths.
  template <class T>
  double forward(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps);
  template <class T>
  void backward(const ChainWeights& weights, const T* x, int64_t stride, int64_t steps,
                double total, T* shares, ChainGradients& gradients);

  // (steps, C): log of the sum of paths that end there; of best_path(), where paths come from.
  std::vector<double> forward_;
  std::vector<double> powers_, sums_, row_, following_;  // (C)
};

}  // namespace crema
