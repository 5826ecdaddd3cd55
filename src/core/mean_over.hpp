// MeanOver: the interface, for tests of all records, of layers whose tops are means over something
// else than the records of a batch, or sums. The mean over all records follows from those of
// batches and from this. They derive from it and from Layer, and are found with dynamic_cast.
#pragma once

#include <cstdint>
#include <optional>

namespace crema {

class MeanOver {
 public:
  virtual ~MeanOver() = default;

  struct Units {
    double count = 0;     // that the mean is over, such as labels that are not ignored
    bool is_sum = false;  // over the batch, without a divisor that follows it
    double divisor = 0;   // of the sum, where it is not `count`: 1 for losses over nothing

    /// The value times this is the sum.
    double factor() const { return is_sum ? 1 : divisor > 0 ? divisor : count; }
  };
  /// Of element `index` of a top after forward. None: a mean over the records, or a value of one.
  virtual std::optional<Units> mean_over(int top, int64_t index) const = 0;
};

}  // namespace crema
