// How many threads a context may have, and has where nobody says a number.
#pragma once

#include <string>

namespace crema {

/// More is a mistake, such as a size in bytes.
inline constexpr int kMaxThreads = 4096;

/// What this process may use of the machine.
struct ThreadLimit {
  int cores = 1;    // of the machine
  int allowed = 1;  // of them, by the process's affinity (taskset, cpuset)
  /// Cores that the time of the process's control groups is worth, which containers are given; 0:
  /// no limit.
  double quota = 0;

  /// The number of threads: all allowed cores, and no more than the quota, rounded up.
  int threads() const;
  /// As "2 of 8 cores: cgroup quota 200%", or "8 cores".
  std::string str() const;
};

/// That of this process. `root` stands before the paths of files of the system: /proc/self/cgroup,
/// /proc/self/mountinfo, and those that these name. What cannot be read limits nothing.
ThreadLimit thread_limit(const std::string& root = "");

}  // namespace crema
