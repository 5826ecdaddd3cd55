#include "backend/cpu/simd.hpp"

#include <algorithm>
#include <atomic>

namespace crema {
namespace {

SimdLevel detect() {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
#ifdef CREMA_EMULATE_AVX512
  const bool avx512 = avx2;
#else
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
#endif
  if (avx512) return SimdLevel::avx512;
  if (avx2) return SimdLevel::avx2;
#endif
  return SimdLevel::baseline;
}

std::atomic<SimdLevel>& current() {
  static std::atomic<SimdLevel> level{detect()};
  return level;
}

}  // namespace

std::string_view to_string(SimdLevel level) {
  switch (level) {
    case SimdLevel::baseline:
      return "baseline";
    case SimdLevel::avx2:
      return "avx2";
    case SimdLevel::avx512:
#ifdef CREMA_EMULATE_AVX512
      return "avx512_emulated";
#else
      return "avx512";
#endif
  }
  return "unknown";
}

SimdLevel simd_level() { return current().load(std::memory_order_relaxed); }

SimdLimit::SimdLimit(SimdLevel level) : before_(simd_level()) {
  current().store(std::min(level, before_));
}

SimdLimit::~SimdLimit() { current().store(before_); }

}  // namespace crema
