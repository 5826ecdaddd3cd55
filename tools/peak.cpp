#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/peak.cpp"
#include "tools/peak.hpp"

#include <algorithm>
#include <chrono>

#include "backend/cpu/highway.hpp"
#include "core/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::tools::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

// Enough independent chains to hide the latency of two FMA units.
constexpr int kChains = 12;

/// `rounds` multiply-adds of each chain; returns their number, of single floats.
int64_t multiply_add(int64_t rounds, float start, float* result) {
  const Floats d;
  hn::Vec<Floats> sums[kChains];
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) sums[c] = hn::Set(d, start + static_cast<float>(c));
  const auto a = hn::Set(d, 0.999999F), b = hn::Set(d, 1e-6F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = hn::MulAdd(sums[c], a, b);
  }
#pragma GCC unroll 12
  for (int c = 1; c < kChains; ++c) sums[0] = hn::Add(sums[0], sums[c]);
  *result = hn::GetLane(hn::SumOfLanes(d, sums[0]));
  return rounds * kChains * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace
}  // namespace crema::tools::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema::tools {
namespace {

HWY_EXPORT(multiply_add);

constexpr int64_t kRounds = 4000000;

}  // namespace

std::string vector_extension() {
  const SimdLevel level = simd_level();
  if (level == SimdLevel::avx512) return "AVX-512";
  if (level == SimdLevel::avx2) return "AVX2";
  if (level == SimdLevel::sse4) return "SSE4";
#ifdef __x86_64__
  return "SSE2";
#else
  return "128-bit vectors";
#endif
}

double fma_peak_gflops(int threads) {
  double best = 0;
  volatile float sink = 0;
  for (int round = 0; round < 5; ++round) {
    const float first = sink;
    double operations = 0;
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : operations)
    {
      float result = 0;
      operations +=
          2.0 * static_cast<double>(HWY_DYNAMIC_DISPATCH(multiply_add)(kRounds, first, &result));
#pragma omp critical(crema_peak)
      sink = sink + result;
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, operations / seconds / 1e9);
  }
  return best;
}

}  // namespace crema::tools
#endif  // HWY_ONCE
