// What CTCLoss and CTCGreedyDecoder read on the host: the class of the blank, lengths of sequences,
// and label sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

/// The scores (T, N, C) of bottom 0.
struct CtcShape {
  int64_t steps = 0, batch = 0, classes = 0;

  /// Error unless the blob has these axes; axes of size 1 may follow.
  static CtcShape of(const Blob& scores);
};

/// The class without a label, -1 being the last one. Error if there is no such class.
int32_t blank_class(int blank, int64_t classes);

/// Labels and used steps of the sequences of a batch.
class CtcSequences {
 public:
  explicit CtcSequences(CtcShape shape) : shape_(shape), steps_(static_cast<size_t>(shape.batch)) {}

  int64_t steps(int64_t n) const { return steps_[static_cast<size_t>(n)]; }
  std::span<const int32_t> label(int64_t n) const {
    const auto at = static_cast<size_t>(n);
    return {labels_.data() + begins_[at], begins_[at + 1] - begins_[at]};
  }

  size_t bytes() const {
    return steps_.capacity() * sizeof(int64_t) + labels_.capacity() * sizeof(int32_t) +
           begins_.capacity() * sizeof(size_t);
  }

  /// All sequences have `steps`.
  void use_steps(int64_t steps);
  /// They end before the first 0 behind step 0 of the indicators (T, N). Error outside [0, 1].
  void read_indicators(const Tensor& indicators);
  /// They have these lengths (N). Error unless whole numbers in [0, T].
  void read_lengths(const Tensor& lengths);

  /// Labels (L, N); a negative one ends a sequence. Error if one is the blank.
  void read_columns(const Tensor& labels, int32_t blank);
  /// The same with lengths (N).
  void read_columns(const Tensor& labels, int32_t blank, const Tensor& lengths);
  /// Labels (N, L), of which blanks are left out.
  void read_rows(const Tensor& labels, int32_t blank);

 private:
  /// Takes label i of sequence n. False: the sequence ends.
  bool take(double label, int64_t i, int64_t n, int32_t blank, bool skips_blanks);
  void begin_labels();
  void end_label() { begins_.push_back(labels_.size()); }

  CtcShape shape_;
  std::vector<int64_t> steps_;
  std::vector<int32_t> labels_;  // of all sequences
  std::vector<size_t> begins_;   // (N + 1)
};

}  // namespace crema
