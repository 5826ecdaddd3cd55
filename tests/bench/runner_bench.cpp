// What runners of a net bring: passes a second of 1, 2 and 4 runners, each in a thread of its own
// with one thread for its passes, and the memory of the process with them.
//   build/release/tests/runner_bench [MODEL [PASSES]]
//
// The passes of two numbers of runners take turns, and the best of all rounds counts, since other
// programs only ever make them slower. Memory is what the system holds for the process.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "crema/net.hpp"

namespace {

constexpr int kRounds = 5;

double megabytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return 1e-6 * static_cast<double>(resident * sysconf(_SC_PAGESIZE));
}

/// Passes a second of the first `count` runners, `passes` of each.
double rate(std::vector<crema::Net>& runners, int count, int passes) {
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([&runner = runners[static_cast<size_t>(t)], passes] {
        for (int i = 0; i < passes; ++i) runner.forward();
      });
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return count * passes / seconds.count();
}

}  // namespace

int main(int argc, char** argv) {
  const char* model = argc > 1 ? argv[1] : CREMA_SOURCE_DIR "/models/resnet50/deploy.prototxt";
  const int passes = argc > 2 ? std::atoi(argv[2]) : 10;
  crema::Context context({.threads = 1});
  const crema::Net net(model, context, {.phase = crema::Phase::test});
  std::vector<crema::Net> runners;
  std::map<int, double> memory, best;
  for (const int count : {1, 2, 4}) {
    while (static_cast<int>(runners.size()) < count) runners.push_back(net.runner());
    rate(runners, count, 2);
    memory[count] = megabytes();
  }
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [count, held] : memory)
      best[count] = std::max(best[count], rate(runners, count, passes));
  }
  const crema::MemoryPlan plan = net.memory();
  std::printf("parameters %.1f MB, activations %.1f MB, kernels %.1f MB of the net\n",
              1e-6 * static_cast<double>(plan.parameters),
              1e-6 * static_cast<double>(plan.activations),
              1e-6 * static_cast<double>(plan.engines));
  for (const auto& [count, held] : memory) {
    std::printf("%d runners  %8.2f passes/s  %5.2f x  %8.1f MB\n", count, best[count],
                best[count] / best[1], held);
  }
}
