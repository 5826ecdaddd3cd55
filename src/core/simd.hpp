// One loop, compiled for several widths of vector registers; the widest one that this processor has
// is taken at run time. Binaries assume no more than plain x86-64.
//
//   [[gnu::always_inline]] inline void add_rows(const float* x, float* y, int64_t n) {
//   #pragma omp simd
//     for (int64_t i = 0; i < n; ++i) y[i] += x[i];
//   }
//   ...
//   vectorized<add_rows>(x, y, n);
//
// The kernel, and all that it calls inside its loops, must be always_inline: only so is it compiled
// anew for each width. It is plain C++; the compiler vectorizes it. Sums need
// `#pragma omp simd reduction(+ : sum)`, which lets it reorder them. Kernels that need conditions,
// conversions or exponentials on vectors are written with Highway: backend/cpu/highway.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "crema/vector_sets.hpp"

namespace crema {

/// At `sse4` plain loops run as at `baseline`, Highway's kernels on vectors of 128 bits.
enum class SimdLevel : uint8_t { baseline, sse4, avx2, avx512 };

std::string_view to_string(SimdLevel level);
/// The level of that name. Error that lists the names otherwise.
SimdLevel simd_level_of(std::string_view name);

/// The best level that this build has kernels for (CREMA_VECTOR_SETS of CMake may leave some out),
/// and that processor and operating system support, unless a SimdLimit lowers it; as Highway
/// chooses.
SimdLevel simd_level();

/// Lowers the level of the whole process, kernels of Highway included, while it lives: to `level`,
/// or to the next lower one that this build has kernels for. For tests and benchmarks of the
/// narrower versions.
class SimdLimit {
 public:
  explicit SimdLimit(SimdLevel level);
  ~SimdLimit();
  SimdLimit(const SimdLimit&) = delete;
  SimdLimit& operator=(const SimdLimit&) = delete;

 private:
  SimdLevel before_;
};

namespace simd_detail {

constexpr bool is_built(SimdLevel level) {
  switch (level) {
    case SimdLevel::baseline:
      return true;
    case SimdLevel::sse4:
      return CREMA_HAS_SSE4;
    case SimdLevel::avx2:
      return CREMA_HAS_AVX2;
    case SimdLevel::avx512:
      return CREMA_HAS_AVX512;
  }
  return false;
}

template <auto Kernel, class... Args>
void baseline(Args... args) {
  Kernel(args...);
}

#ifdef __x86_64__
// Feature names rather than processor names: a function is inlined only where the architecture that
// code is tuned for stays the same.
template <auto Kernel, class... Args>
[[gnu::target("avx2,fma,f16c,bmi2")]] void avx2(Args... args) {
  Kernel(args...);
}

template <auto Kernel, class... Args>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,bmi2,prefer-vector-width=512")]] void
avx512(Args... args) {
  Kernel(args...);
}
#endif

}  // namespace simd_detail

/// Kernel(args...), in the version for simd_level(). Arguments are passed by value.
template <auto Kernel, class... Args>
void vectorized(Args... args) {
#ifdef __x86_64__
  [[maybe_unused]] const SimdLevel level = simd_level();
  if constexpr (simd_detail::is_built(SimdLevel::avx512)) {
    if (level == SimdLevel::avx512) return simd_detail::avx512<Kernel, Args...>(args...);
  }
  if constexpr (simd_detail::is_built(SimdLevel::avx2)) {
    if (level == SimdLevel::avx2) return simd_detail::avx2<Kernel, Args...>(args...);
  }
#endif
  simd_detail::baseline<Kernel, Args...>(args...);
}

}  // namespace crema
