#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/peak.cpp"
#include "tools/peak.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

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
constexpr size_t kLargest = size_t{256} << 20, kSmallest = size_t{256} << 10;

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

std::vector<CostLimits::Copy> copy_rates(int threads) {
  const size_t half = kLargest / 2;
  const std::unique_ptr<char[]> from(new char[half]), to(new char[half]);
  // Each thread writes its part first, so that the memory is near to it.
  const auto copy = [&](size_t bytes, int times) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; ++part) {
      const size_t begin = bytes * static_cast<size_t>(part) / static_cast<size_t>(threads);
      const size_t end = bytes * static_cast<size_t>(part + 1) / static_cast<size_t>(threads);
      for (int i = 0; i < times; ++i) std::memcpy(&to[begin], &from[begin], end - begin);
    }
  };
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int part = 0; part < threads; ++part) {
    const size_t begin = half * static_cast<size_t>(part) / static_cast<size_t>(threads);
    const size_t end = half * static_cast<size_t>(part + 1) / static_cast<size_t>(threads);
    std::memset(&from[begin], 1, end - begin);
    std::memset(&to[begin], 2, end - begin);
  }
  std::vector<CostLimits::Copy> rates;
  for (size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    const int times = static_cast<int>(std::max<size_t>(1, (size_t{32} << 20) / bytes));
    double best = 0;
    for (int round = 0; round < 5; ++round) {
      const auto start = std::chrono::steady_clock::now();
      copy(bytes / 2, times);
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::max(best, static_cast<double>(bytes) * times / seconds);
    }
    rates.push_back({static_cast<double>(bytes), best});
  }
  return rates;
}

CostLimits cpu_limits(int threads) {
  CostLimits limits;
  // Products of 16 bits are computed in f32 where the processor has no instructions for them.
  limits.f32 = limits.bf16 = limits.tf32 = fma_peak_gflops(threads) * 1e9;
  limits.f64 = limits.f32 / 2;
  limits.copies = copy_rates(threads);
  return limits;
}

}  // namespace crema::tools
#endif  // HWY_ONCE
