// Updates of 61 million f32 parameters, as AlexNet has, by each rule, beside a copy of memory.
//   build/release/tests/update_bench [--threads=N]
// A line each: milliseconds of the fastest of 5, and GB/s of the traffic that the rule needs
// (values read and written once, gradients read and, for norms, what they need read once more).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "crema/parameter_arena.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"

namespace crema {
namespace {

constexpr int64_t kCount = 61'000'000;

double fastest(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  run();
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void print(const char* name, double seconds, double values) {
  const double bytes = values * sizeof(float) * static_cast<double>(kCount);
  std::printf("%-16s %8.1f ms %8.1f GB/s\n", name, 1e3 * seconds, 1e-9 * bytes / seconds);
  std::fflush(stdout);
}

void copy(const std::vector<float>& from, std::vector<float>& to) {
  parallel_for(kCount, 1, [&](int64_t begin, int64_t end) {
    std::memcpy(to.data() + begin, from.data() + begin,
                static_cast<size_t>(end - begin) * sizeof(float));
  });
}

int run(int threads) {
  Context context({.threads = threads});
  const ThreadScope scope(context.threads());
  Parameter owner(Shape{kCount}, Filler::constant(0));
  owner.attach(std::make_shared<ParameterStorage>(Tensor(Shape{kCount}), Tensor(Shape{kCount})));
  ParameterArena arena;
  arena.build({{&owner, "layer", 0, 0, kCount}}, DType::f32, true);
  arena.settle_gradients();
  arena.data().fill(0.5);
  arena.diff().fill(1e-3);
  std::printf("%d threads\n", context.threads());
  {
    const std::vector<float> from(kCount, 1);
    std::vector<float> to(kCount);
    print("memcpy", fastest([&] { copy(from, to); }), 2);
  }
  for (const char* type : {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW",
                           "Lion", "LARS", "LAMB", "SGD + average"}) {
    SolverParameter param;
    const bool averages = std::string(type).find(' ') != std::string::npos;
    param.set_type(std::string(type).substr(0, std::string(type).find(' ')));
    UpdateRule rule(param, context);
    const int histories = rule.history_count();
    std::vector<Tensor> history;
    for (int i = 0; i < histories; ++i) history.emplace_back(Shape{arena.size()});
    Tensor average(arena.data().shape());
    int iteration = 0;
    const double seconds = fastest([&] {
      rule.update(arena, history, {.iteration = iteration++, .rate = 1e-6, .average_decay = 0.999},
                  averages ? &average : nullptr);
    });
    double values = 3 + 2 * histories + (averages ? 2 : 0);
    if (param.type() == "LARS") values += 2;
    if (param.type() == "LAMB") values += 4;
    print(type, seconds, values);
  }
  return 0;
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  int threads = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) threads = std::atoi(argv[i] + 10);
  }
  return crema::run(threads);
}
