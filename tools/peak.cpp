#include "tools/peak.hpp"

#include <algorithm>
#include <chrono>

#include "backend/cpu/vec.hpp"
#include "core/simd.hpp"

namespace crema::tools {
namespace {

constexpr int64_t kRounds = 4000000;
// Enough independent chains to hide the latency of two FMA units.
constexpr int kChains = 12;

/// kChains * kRounds multiply-adds of Width floats each; the compiler makes one instruction of each
/// where the processor has one.
struct MultiplyAdd {
  template <int Width>
  [[gnu::always_inline]] static inline void run(float start, float* result) {
    using Floats = Vec<float, Width>;
    // Chains that differ, from a number that is not known before, or else the compiler saves work.
    Floats sums[kChains];
    for (int c = 0; c < kChains; ++c) sums[c] = Floats{} + (start + static_cast<float>(c));
    const Floats a = Floats{} + 0.999999F, b = Floats{} + 1e-6F;
    for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) sums[c] = sums[c] * a + b;
    }
    for (int c = 1; c < kChains; ++c) sums[0] += sums[c];
    *result = 0;
    for (int lane = 0; lane < Width; ++lane) *result += sums[0][lane];
  }
};

/// Floats in a register, as vectorized_by_width takes them.
int lanes_of(SimdLevel level) {
  return level == SimdLevel::avx512 ? 16 : level == SimdLevel::avx2 ? 8 : 4;
}

}  // namespace

std::string vector_extension() {
  const SimdLevel level = simd_level();
  if (level == SimdLevel::avx512) return "AVX-512";
  if (level == SimdLevel::avx2) return "AVX2";
#ifdef __x86_64__
  return "SSE2";
#else
  return "128-bit vectors";
#endif
}

double fma_peak_gflops(int threads) {
  const int lanes = lanes_of(simd_level());
  double best = 0;
  volatile float sink = 0;
  for (int round = 0; round < 5; ++round) {
    const float first = sink;
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads)
    {
      float result = 0;
      vectorized_by_width<MultiplyAdd>(first, &result);
#pragma omp critical(crema_peak)
      sink = sink + result;
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * kChains * lanes * kRounds * threads / seconds / 1e9);
  }
  return best;
}

}  // namespace crema::tools
