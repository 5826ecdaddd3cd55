// The loss that progress shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace crema {

/// Mean of the last `window` losses, as published.
class SmoothedLoss {
 public:
  explicit SmoothedLoss(int window) : losses_(static_cast<size_t>(std::max(1, window))) {}

  double add(double loss) {
    losses_[next_] = loss;
    next_ = (next_ + 1) % losses_.size();
    count_ = std::min(count_ + 1, losses_.size());
    const auto end = losses_.begin() + static_cast<ptrdiff_t>(count_);
    return std::accumulate(losses_.begin(), end, 0.0) / static_cast<double>(count_);
  }
  void clear() { next_ = count_ = 0; }

 private:
  std::vector<double> losses_;  // a ring of which the first count_ are taken
  size_t next_ = 0, count_ = 0;
};

}  // namespace crema
