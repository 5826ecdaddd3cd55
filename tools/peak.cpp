#include "tools/peak.hpp"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

namespace crema::tools {
namespace {

constexpr int64_t kRounds = 4000000;
// Enough independent chains to hide the latency of two FMA units.
constexpr int kChains = 12;

__attribute__((target("avx512f"))) float run_avx512() {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999999F), b = _mm512_set1_ps(1e-6F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_ps(sums[c], a, b);
  }
  float total = 0;
  for (auto& sum : sums) total += _mm512_cvtss_f32(sum);
  return total;
}

__attribute__((target("avx2,fma"))) float run_avx2() {
  __m256 sums[kChains];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0F);
  const __m256 a = _mm256_set1_ps(0.999999F), b = _mm256_set1_ps(1e-6F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm256_fmadd_ps(sums[c], a, b);
  }
  float total = 0;
  for (auto& sum : sums) total += _mm256_cvtss_f32(sum);
  return total;
}

float run_sse2() {
  __m128 sums[kChains];
  for (auto& sum : sums) sum = _mm_set1_ps(1.0F);
  const __m128 a = _mm_set1_ps(0.999999F), b = _mm_set1_ps(1e-6F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm_add_ps(_mm_mul_ps(sums[c], a), b);
  }
  float total = 0;
  for (auto& sum : sums) total += _mm_cvtss_f32(sum);
  return total;
}

}  // namespace

std::string vector_extension() {
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "AVX2" : "SSE2";
}

double fma_peak_gflops(int threads) {
  const std::string widest = vector_extension();
  const int lanes = widest == "AVX-512" ? 16 : widest == "AVX2" ? 8 : 4;
  float (*run)() = widest == "AVX-512" ? run_avx512 : widest == "AVX2" ? run_avx2 : run_sse2;
  double best = 0;
  volatile float sink = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads)
    {
      const float result = run();
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
