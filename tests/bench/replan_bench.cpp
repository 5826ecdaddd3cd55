// What a change of the input's shape costs, in milliseconds and percent of a forward pass.
//   build/release/tests/replan_bench [MODEL [BATCH [ROUNDS]]]
//
// The net goes from BATCH images to one more and back. "new shape" plans, with the kernels of all
// its problems measured before; "known shape" takes up a plan that was kept; "first pass" is what
// the forward pass behind that takes longer than later ones. One thread; the least CPU time of all
// rounds counts, since other programs only ever add to it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <vector>

#include "crema/net.hpp"

namespace {

/// Milliseconds of a call: the least of all.
class Least {
 public:
  template <class Call>
  void add(const Call& call) {
    const double start = cpu_ms();
    call();
    least_ = std::min(least_, cpu_ms() - start);
  }
  double ms() const { return least_; }

 private:
  static double cpu_ms() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  }

  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

int main(int argc, char** argv) {
  const char* model = argc > 1 ? argv[1] : CREMA_SOURCE_DIR "/models/resnet50/deploy.prototxt";
  const int batch = argc > 2 ? std::atoi(argv[2]) : 8;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 10;
  crema::Context context({.threads = 1});
  crema::Net net(model, context, {.phase = crema::Phase::test});
  const std::string input = net.inputs().at(0);
  const auto reshape = [&](int64_t images) {
    const crema::Shape& shape = net.input(input).shape();
    std::vector<int64_t> sizes = shape.dims();
    sizes[0] = images;
    net.reshape_input(input, crema::Shape(sizes));
    net.reshape();
  };
  const auto forward = [&] { net.forward(); };
  Least new_shape, known_shape, known_first, steady;
  for (int round = 0; round < rounds; ++round) {
    reshape(batch);
    net.replan();  // drops all kept plans
    forward();
    new_shape.add([&] { reshape(batch + 1); });
    forward();
    known_shape.add([&] { reshape(batch); });
    known_first.add(forward);
    for (int i = 0; i < 2; ++i) steady.add(forward);
  }
  const auto print = [&](const char* what, double ms) {
    std::printf("%-12s %9.3f ms %7.2f %%\n", what, ms, 100 * ms / steady.ms());
  };
  print("forward", steady.ms());
  print("new shape", new_shape.ms());
  print("known shape", known_shape.ms());
  print("first pass", known_first.ms() - steady.ms());
}
