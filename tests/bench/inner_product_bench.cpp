// InnerProduct's products on this processor: the library's GEMM, or its GEMV for one row, beside
// those that leave the weights where they lie.
//   build/release/tests/inner_product_bench [--threads N] [--runs N] [BATCHxOUTPUTSxINPUTS]...
//
// Both run in turn, and the median counts: of CPU time with one thread, which other programs
// disturb least, of elapsed time with more.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/thin_product.hpp"
#include "core/simd.hpp"
#include "crema/error.hpp"
#include "crema/random.hpp"
#include "layer_support/matrix_products.hpp"

namespace crema {
namespace {

struct Sizes {
  int64_t batch, outputs, inputs;
};

// AlexNet's fc6, fc7 and fc8, VGG's fc6, the last layers of ResNet-50 and GoogLeNet, LeNet's ip1.
const std::vector<Sizes> kSizes = {{32, 4096, 9216}, {32, 4096, 4096}, {32, 1000, 4096},
                                   {8, 4096, 25088}, {8, 1000, 2048},  {16, 1000, 1024},
                                   {64, 500, 800}};

double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Tensor random_tensor(const Shape& shape, uint64_t stream) {
  Tensor tensor(shape);
  Random random(7, stream);
  float* const values = tensor.overwrite<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) values[i] = 2 * random.uniform() - 1;
  return tensor;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(const Sizes& s, int threads, int runs) {
  const auto [n, o, i] = s;
  const Tensor weights = random_tensor({o, i}, 1), bottom = random_tensor({n, i}, 2);
  const Tensor top_diff = random_tensor({n, o}, 3);
  Tensor top({n, o}), bottom_diff({n, i}), gradient({o, i});
  const float *w = weights.read<float>(), *x = bottom.read<float>(), *dy = top_diff.read<float>();
  float *y = top.change<float>(), *dx = bottom_diff.change<float>();
  float* dw = gradient.change<float>();
  ThinProduct product(n, o, i, threads);
  const MatrixProducts<float, HostGemm<float>> library{{}, {n, o, i}};

  struct Pass {
    const char* name;
    std::function<void()> library, native;
  };
  const Pass passes[] = {
      {"forward", [&] { library.times_transposed(x, w, y); },
       [&] { product.times_transposed(x, w, y); }},
      {"backward data", [&] { library.times(dy, w, dx); }, [&] { product.times(dy, w, dx); }},
      {"backward weights", [&] { library.outer(dy, x, 0, dw); },
       [&] { product.outer(dy, x, 0, dw); }}};
  const double flops = 2.0 * static_cast<double>(n * o * i);
  const std::string problem = text(n, 'x', o, 'x', i);
  for (const Pass& pass : passes) {
    std::vector<double> by_library, by_native;
    for (int run = -1; run < runs; ++run) {  // the first one warms up
      for (const bool is_native : {false, true}) {
        const double start = now(threads);
        (is_native ? pass.native : pass.library)();
        const double seconds = now(threads) - start;
        if (run >= 0) (is_native ? by_native : by_library).push_back(seconds);
      }
    }
    const double a = median(by_library), b = median(by_native);
    std::printf(
        "%-16s %-16s  library %8.3f ms %6.1f GFLOP/s  native %8.3f ms %6.1f GFLOP/s  %5.2fx\n",
        problem.c_str(), pass.name, a * 1e3, flops / a * 1e-9, b * 1e3, flops / b * 1e-9, a / b);
  }
}

int main(int argc, char** argv) {
  int threads = omp_get_max_threads(), runs = 15;
  std::vector<Sizes> sizes;
  for (int i = 1; i < argc; ++i) {
    Sizes s{};
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = std::stoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = std::stoi(argv[++i]);
    } else if (std::sscanf(argv[i], "%ldx%ldx%ld", &s.batch, &s.outputs, &s.inputs) == 3) {
      sizes.push_back(s);
    } else {
      std::fprintf(stderr, "usage: %s [--threads N] [--runs N] [BATCHxOUTPUTSxINPUTS]...\n",
                   argv[0]);
      return 2;
    }
  }
  if (threads <= 0) throw Error("--threads ", threads, " must be at least 1");
  if (runs <= 0) throw Error("--runs ", runs, " must be at least 1");
  omp_set_num_threads(threads);
  std::printf("%s, %s, %d threads\n", blas_name().c_str(),
              std::string(to_string(simd_level())).c_str(), threads);
  for (const Sizes& s : sizes.empty() ? kSizes : sizes) measure(s, threads, runs);
  return 0;
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  try {
    return crema::main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
