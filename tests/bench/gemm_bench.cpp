// f32 GEMM as nets need it: OpenBLAS beside oneDNN, in GFLOP/s.
//   build/release/crema_bench --benchmark_filter=Gemm
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <vector>

#include "backend/cpu/gemm_library.hpp"
#include "core/device.hpp"

namespace crema {
namespace {

struct Sizes {
  bool ta, tb;
  int64_t m, n, k;
};

// Forward, backward data and backward weights of AlexNet's fc6 (batch 32), VGG's (batch 8), LeNet's
// ip1 (batch 64), and a square one.
const std::vector<Sizes> kSizes = {
    {false, true, 32, 4096, 9216},   {false, false, 32, 9216, 4096}, {true, false, 4096, 9216, 32},
    {false, true, 8, 4096, 25088},   {false, false, 8, 25088, 4096}, {true, false, 4096, 25088, 8},
    {false, true, 64, 500, 800},     {false, false, 64, 800, 500},   {true, false, 500, 800, 64},
    {false, false, 1024, 1024, 1024}};

template <class Call>
void run(benchmark::State& state, const Call& call) {
  const Sizes s = kSizes[static_cast<size_t>(state.range(0))];
  const std::vector<float> a(static_cast<size_t>(s.m * s.k), 0.5F);
  const std::vector<float> b(static_cast<size_t>(s.k * s.n), 0.25F);
  std::vector<float> c(static_cast<size_t>(s.m * s.n));
  for (auto _ : state) {
    call(s, a.data(), b.data(), c.data());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(s.m * s.n * s.k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k));
}

void GemmOpenBlas(benchmark::State& state) {
  run(state, [](const Sizes& s, const float* a, const float* b, float* c) {
    cblas_sgemm(CblasRowMajor, s.ta ? CblasTrans : CblasNoTrans, s.tb ? CblasTrans : CblasNoTrans,
                static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k), 1, a,
                static_cast<int>(s.ta ? s.m : s.k), b, static_cast<int>(s.tb ? s.k : s.n), 0, c,
                static_cast<int>(s.n));
  });
}
BENCHMARK(GemmOpenBlas)->DenseRange(0, 9)->UseRealTime();

void GemmOneDnn(benchmark::State& state) {
  if (cpu_library().empty())
    return state.SkipWithError("needs oneDNN: configure with CREMA_ONEDNN=ON");
  run(state, [](const Sizes& s, const float* a, const float* b, float* c) {
    onednn_gemm(s.ta, s.tb, s.m, s.n, s.k, 1, a, s.ta ? s.m : s.k, b, s.tb ? s.k : s.n, 0, c, s.n);
  });
}
BENCHMARK(GemmOneDnn)->DenseRange(0, 9)->UseRealTime();

}  // namespace
}  // namespace crema
