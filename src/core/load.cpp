#include "core/load.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace crema {
namespace {

/// Threads of this process that run or wait for a processor, such as those that spin behind a
/// parallel region.
int own_runnable() {
  int count = 0;
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream file(thread.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;
    // The state stands behind the name, which is in brackets and may hold anything.
    const size_t end = line.rfind(") ");
    if (end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'R') ++count;
  }
  return count;
}

Load read_load(int threads) {
  Load load;
  const auto processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int runnable = 0;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "cpu") {
      // user nice system idle iowait irq softirq steal
      double ticks = 0;
      for (int i = 0; i < 8; ++i) words >> ticks;
      if (words) load.stolen = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    } else if (name == "procs_running") {
      words >> runnable;
      break;
    }
  }
  if (runnable > 0)
    load.waiting = std::max(0, runnable - std::max(1, own_runnable()) + threads - processors);
  return load;
}

/// Threads of this process that fall asleep between two files, as behind a parallel region, would
/// count as those of others. Whoever really waits is there in each reading.
Load system_load(int threads) {
  constexpr int kReadings = 4;
  constexpr auto kBetween = std::chrono::microseconds(200);
  Load load = read_load(threads);
  for (int i = 1; i < kReadings && load.waiting > 0; ++i) {
    std::this_thread::sleep_for(kBetween);
    const Load again = read_load(threads);
    load = {.waiting = std::min(load.waiting, again.waiting), .stolen = again.stolen};
  }
  return load;
}

}  // namespace

Senses system_senses() {
  using Clock = std::chrono::steady_clock;
  return {
      .now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); },
      .switches =
          [] {
            rusage usage{};
            getrusage(RUSAGE_SELF, &usage);
            return static_cast<int64_t>(usage.ru_nivcsw);
          },
      .load = system_load,
      .nap =
          [](double seconds) {
            std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
          }};
}

}  // namespace crema
