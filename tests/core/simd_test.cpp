// The kernels that Highway chooses follow the level that the rest of the library runs at.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/core/simd_test.cpp"
#include "core/simd.hpp"

#include <gtest/gtest.h>

#include "backend/cpu/highway.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::test {
namespace HWY_NAMESPACE {
namespace {

int64_t target_that_runs() { return HWY_TARGET; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::test
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema::test {
namespace {

HWY_EXPORT(target_that_runs);

int64_t chosen() { return HWY_DYNAMIC_DISPATCH(target_that_runs)(); }

/// What Highway's kernels are compiled for at `level`; a build may leave sets out.
int64_t target_of(SimdLevel level) {
#ifdef __x86_64__
  if (level == SimdLevel::avx512 && (HWY_TARGETS & HWY_AVX3)) return HWY_AVX3;
  if (level >= SimdLevel::avx2) return HWY_AVX2;
  if (level == SimdLevel::sse4 && (HWY_TARGETS & HWY_SSE4)) return HWY_SSE4;
#endif
  return HWY_STATIC_TARGET;
}

TEST(Simd, HighwayChoosesTheLevelOfTheProcessor) { EXPECT_EQ(chosen(), target_of(simd_level())); }

TEST(Simd, LimitsHoldForHighway) {
  const int64_t unlimited = chosen();
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    EXPECT_EQ(chosen(), target_of(simd_level()));
    {
      const SimdLimit inner(SimdLevel::baseline);
      EXPECT_EQ(chosen(), target_of(SimdLevel::baseline));
    }
    EXPECT_EQ(chosen(), target_of(simd_level()));
  }
  EXPECT_EQ(chosen(), unlimited);
}

}  // namespace
}  // namespace crema::test
#endif
