// ScratchPlan: memory that the engines of a net use in turn while they run.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace crema {

/// The place of the device's scratch memory, DeviceBackend::scratch().
inline constexpr std::string_view kDeviceScratch = "device";

/// It consists of places, each as large as the engine that asks most for it.
class ScratchPlan {
 public:
  explicit ScratchPlan(int threads) : threads_(threads) {}

  /// Threads that may run an engine. Each has its own of a place that belongs to threads.
  int threads() const { return threads_; }
  /// `bytes` of a place, those of all threads together.
  void need(std::string_view place, size_t bytes) {
    const auto known = most_.find(place);
    if (known == most_.end()) {
      most_.emplace(place, bytes);
    } else if (known->second < bytes) {
      known->second = bytes;
    }
  }
  /// Of all places.
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [place, most] : most_) sum += most;
    return sum;
  }

 private:
  int threads_;
  std::map<std::string, size_t, std::less<>> most_;
};

}  // namespace crema
