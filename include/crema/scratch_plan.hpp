// ScratchPlan: the planned scratch memory of a net, which its engines share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace crema {

/// The name of the scratch memory of the device, DeviceBackend::scratch().
inline constexpr std::string_view kDeviceScratch = "device";

/// Scratch memory consists of named places. The size of a place is the largest need of any engine.
class ScratchPlan {
 public:
  explicit ScratchPlan(int threads) : threads_(threads) {}

  /// Number of threads of the context. A place may exist once for each thread.
  int threads() const { return threads_; }
  /// Adds the need of an engine: `bytes` of a place, for all threads together.
  void need(std::string_view place, size_t bytes) {
    size_t& most = most_[std::string(place)];
    most = std::max(most, bytes);
  }
  /// The sum over all places.
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [place, most] : most_) sum += most;
    return sum;
  }

 private:
  int threads_;
  std::map<std::string, size_t> most_;
};

}  // namespace crema
