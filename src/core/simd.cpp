#include "core/simd.hpp"

#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr std::string_view kNames[] = {"baseline", "sse4", "avx2", "avx512"};
static_assert(std::size(kNames) == static_cast<size_t>(SimdLevel::avx512) + 1);

/// The best level up to `level` that there are kernels for.
SimdLevel best_built(SimdLevel level) {
  int number = static_cast<int>(level);
  while (!simd_detail::is_built(static_cast<SimdLevel>(number))) --number;
  return static_cast<SimdLevel>(number);
}

// Highway asks for all that its targets use: AVX2 comes with FMA, BMI2 and F16C, AVX-512 with its
// F, BW, DQ and VL.
SimdLevel detect() {
#ifdef __x86_64__
  const int64_t targets = hwy::SupportedTargets();
  if (targets & HWY_AVX2)
    return best_built(targets & HWY_AVX3 ? SimdLevel::avx512 : SimdLevel::avx2);
  if (targets & HWY_SSE4) return best_built(SimdLevel::sse4);
#endif
  return SimdLevel::baseline;
}

/// Makes HWY_DYNAMIC_DISPATCH choose as vectorized() does.
void limit_highway(SimdLevel level) {
  int64_t targets = hwy::SupportedTargets();
#ifdef __x86_64__
  // Better targets have lower bits.
  if (level < SimdLevel::avx512) targets &= ~(HWY_AVX2 - 1);
  if (level < SimdLevel::avx2) targets &= ~(HWY_SSE4 - 1);
  if (level < SimdLevel::sse4) targets &= ~HWY_SSE4;
#else
  static_cast<void>(level);
#endif
  hwy::GetChosenTarget().Update(targets);
}

std::atomic<SimdLevel>& current() {
  static std::atomic<SimdLevel> level{detect()};
  return level;
}

}  // namespace

std::string_view to_string(SimdLevel level) { return kNames[static_cast<size_t>(level)]; }

SimdLevel simd_level_of(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == std::end(kNames))
    throw Error("no vector instructions are called '", name,
                "'; use baseline, sse4, avx2 or avx512");
  return static_cast<SimdLevel>(found - std::begin(kNames));
}

SimdLevel simd_level() { return current().load(std::memory_order_relaxed); }

SimdLimit::SimdLimit(SimdLevel level) : before_(simd_level()) {
  const SimdLevel limited = best_built(std::min(level, before_));
  current().store(limited);
  limit_highway(limited);
}

SimdLimit::~SimdLimit() {
  current().store(before_);
  limit_highway(before_);
}

}  // namespace crema
