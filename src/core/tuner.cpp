#include "backend/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace crema {
namespace {

// The first run pays for cold caches and fresh pages; the fastest of a few is what counts. Small
// problems are repeated until the clock can tell them apart.
constexpr int kMinRuns = 3;
constexpr int kMaxRuns = 20;
constexpr double kEnoughSeconds = 0.02;

double fastest(const std::function<void()>& measure) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  double total = 0;
  for (int run = 0; run < kMinRuns || (run < kMaxRuns && total < kEnoughSeconds); ++run) {
    const auto start = Clock::now();
    measure();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

}  // namespace

double Tuner::seconds(const std::string& problem, const std::string& candidate,
                      const std::function<void()>& measure) {
  const std::string key = problem + '|' + candidate;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = seconds_.find(key); known != seconds_.end()) return known->second;
  }
  const double measured = fastest(measure);
  // Another thread may have measured the same meanwhile: all go by what was noted first.
  const std::lock_guard lock(mutex_);
  return seconds_.emplace(key, measured).first->second;
}

bool Tuner::decided(const std::string& problem, std::string& candidate) const {
  const std::lock_guard lock(mutex_);
  const auto known = decisions_.find(problem);
  if (known == decisions_.end()) return false;
  candidate = known->second;
  return true;
}

void Tuner::decide(const std::string& problem, const std::string& candidate) {
  const std::lock_guard lock(mutex_);
  decisions_[problem] = candidate;
}

std::map<std::string, std::string> Tuner::decisions() const {
  const std::lock_guard lock(mutex_);
  return decisions_;
}

}  // namespace crema
