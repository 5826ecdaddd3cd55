// ScratchPlan: the planned scratch memory of a net, which its engines share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

/// The name of the scratch memory of the device, DeviceBackend::scratch().
inline constexpr std::string_view kDeviceScratch = "device";

/// Scratch memory consists of named places, which each thread has for itself. The size of a place
/// of a thread is the largest need of any engine.
class ScratchPlan {
 public:
  explicit ScratchPlan(int threads) : threads_(threads) {}

  /// Number of threads of the context.
  int threads() const { return threads_; }
  /// Adds the need of an engine: `bytes` of a place on each of `threads` threads, the first of the
  /// team.
  void need(std::string_view place, size_t bytes, int64_t threads = 1) {
    std::vector<size_t>& most = most_[std::string(place)];
    if (std::ssize(most) < threads) most.resize(static_cast<size_t>(threads));
    for (size_t t = 0; t < static_cast<size_t>(threads); ++t) most[t] = std::max(most[t], bytes);
  }
  /// The sum over all threads of a place.
  size_t bytes(std::string_view place) const {
    const auto found = most_.find(std::string(place));
    if (found == most_.end()) return 0;
    return std::accumulate(found->second.begin(), found->second.end(), size_t{0});
  }
  /// The sum over all places and threads.
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [place, most] : most_) sum = std::accumulate(most.begin(), most.end(), sum);
    return sum;
  }

 private:
  int threads_;
  std::map<std::string, std::vector<size_t>> most_;  // one entry a thread
};

}  // namespace crema
