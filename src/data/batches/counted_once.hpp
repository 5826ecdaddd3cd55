// CountedOnce: in a test that takes records again, each counts once where images are counted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

/// Sets CountsImages::count_only() of a net's layers as long as it lives; the net has to outlive
/// it. A test begins with a new one.
class CountedOnce {
 public:
  explicit CountedOnce(const std::vector<Layer*>& layers);
  ~CountedOnce();
  CountedOnce(const CountedOnce&) = delete;
  CountedOnce& operator=(const CountedOnce&) = delete;

  /// To be called before each forward pass. Of the batch, only the first `samples` may count.
  void next_batch(int64_t samples = INT64_MAX);
  /// The same where the next pass takes the place of the last one.
  void repeat_batch(int64_t samples);

 private:
  struct Counter;
  std::vector<std::unique_ptr<Counter>> counters_;
};

}  // namespace crema
