// Milliseconds of pooling's vectorized kernels, in one thread, for each kind of memory and each
// level of vector instructions that this processor has. The least of several rounds, since other
// programs only ever add to a time.
//
//   pooling_bench [ROUNDS]
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/simd.hpp"
#include "crema/random.hpp"
#include "layers/pooling/pooling_kernels.hpp"

namespace crema {
namespace {

struct Problem {
  const char* name;
  bool maximum;
  int64_t images, channels, size, kernel, stride, pad;
};

constexpr Problem kProblems[] = {{"MAX 3x3 stride 2, 8x64x112x112", true, 8, 64, 112, 3, 2, 0},
                                 {"MAX 3x3 stride 1, 16x192x28x28", true, 16, 192, 28, 3, 1, 1},
                                 {"MAX 2x2 stride 2, 8x64x56x56", true, 8, 64, 56, 2, 2, 0},
                                 {"MAX 2x2 stride 2, 64x20x24x24", true, 64, 20, 24, 2, 2, 0},
                                 {"AVE 3x3 stride 2, 64x32x16x16", false, 64, 32, 16, 3, 2, 0},
                                 {"AVE 3x3 stride 2, 8x64x56x56", false, 8, 64, 56, 3, 2, 0},
                                 {"AVE 7x7, 8x2048x7x7", false, 8, 2048, 7, 7, 1, 0}};

double milliseconds(int rounds, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

struct Times {
  double forward, inference, backward;
};

/// `of_pixel` is 0 for planes.
Times measure(const Problem& p, int64_t of_pixel, int rounds) {
  PoolingAxis axis{.size = p.size, .kernel = p.kernel, .stride = p.stride, .pad = p.pad};
  axis.out = (p.size + 2 * p.pad - p.kernel + p.stride - 1) / p.stride + 1;
  if (p.pad > 0 && (axis.out - 1) * p.stride >= p.size + p.pad) --axis.out;
  const PoolingPlan plan({.y = axis, .x = axis}, p.maximum, std::max<int64_t>(of_pixel, 1));
  const int64_t parts = p.images * p.channels / plan.channels;
  std::vector<float> x(static_cast<size_t>(parts * plan.inputs())), dx(x.size());
  std::vector<float> y(static_cast<size_t>(parts * plan.outputs())), dy(y.size(), 1);
  std::vector<uint8_t> choice(y.size());
  Random random(1, 1);
  for (float& value : x) value = 2 * random.uniform() - 1;
  auto each = [&](auto&& body) {
    for (int64_t i = 0; i < parts; ++i) body(i * plan.inputs(), i * plan.outputs());
  };
  auto forward = [&](bool keep) {
    each([&](int64_t in, int64_t out) {
      const PoolingChoices chosen{keep ? &choice[out] : nullptr};
      if (of_pixel == 0) return pool_plane(plan, &x[in], &y[out], chosen);
      for (int64_t row = 0; row < axis.out; ++row) pool_row(plan, row, &x[in], &y[out], chosen);
    });
  };
  auto backward = [&] {
    each([&](int64_t in, int64_t out) {
      const PoolingChoices chosen{p.maximum ? &choice[out] : nullptr};
      if (of_pixel == 0) return unpool_plane(plan, &dy[out], chosen, &dx[in]);
      for (int64_t row = 0; row < axis.size; ++row) {
        unpool_row(plan, row, &dy[out], chosen, &dx[in]);
      }
    });
  };
  return {milliseconds(rounds, [&] { forward(p.maximum); }),
          milliseconds(rounds, [&] { forward(false); }), milliseconds(rounds, backward)};
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  using namespace crema;
  const int rounds = argc > 1 ? std::stoi(argv[1]) : 20;
  std::printf("%-32s %-9s %-14s %9s %9s %9s\n", "problem", "level", "memory", "forward",
              "inference", "backward");
  for (const Problem& p : kProblems) {
    for (const SimdLevel level :
         {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
      const SimdLimit limit(level);
      if (simd_level() != level) continue;
      for (const auto& [memory, of_pixel] :
           {std::pair{"contiguous", int64_t{0}}, std::pair{"channels_last", p.channels},
            std::pair{"blocked8", int64_t{8}}, std::pair{"blocked16", int64_t{16}}}) {
        if (of_pixel > 0 && p.channels % of_pixel != 0) continue;
        const Times t = measure(p, of_pixel, rounds);
        std::printf("%-32s %-9s %-14s %9.3f %9.3f %9.3f\n", p.name,
                    std::string(to_string(level)).c_str(), memory, t.forward, t.inference,
                    t.backward);
      }
    }
  }
}
