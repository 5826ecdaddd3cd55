// Kernels written with Google Highway: one text, compiled once for each set of vector instructions;
// the best one that this processor has runs. The file of a kernel looks so:
//
//   // The file's own path, for highway.hpp, which compiles the file for each set.
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "layers/pooling/pooling_pixels.cpp"
//   #include "backend/cpu/highway.hpp"
//   #include ...
//
//   HWY_BEFORE_NAMESPACE();
//   namespace crema {
//   namespace HWY_NAMESPACE {
//   namespace {
//   void add_rows(const float* x, float* y, int64_t n) { ... hn::LoadU(d, x) ... }
//   }  // namespace
//   }  // namespace HWY_NAMESPACE
//   }  // namespace crema
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE
//   namespace crema {
//   namespace {
//   HWY_EXPORT(add_rows);
//   }  // namespace
//   void add(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(add_rows)(x, y, n); }
//   }  // namespace crema
//   #endif
//
// What is called inside of loops on vectors must stand between HWY_BEFORE_NAMESPACE and
// HWY_AFTER_NAMESPACE, since elsewhere the compiler may not use the instructions; a lambda there
// needs HWY_ATTR behind its parameters. Templates are exported by a function of fixed type for each
// case.
//
// The sets are what every processor of the architecture has (HWY_SCALAR on x86-64 up to Highway
// 1.0.3, NEON on ARM), SSE4, AVX2 and AVX-512. simd_level() and Highway choose alike, and SimdLimit
// (core/simd.hpp) holds for both. The option CREMA_VECTOR_SETS of CMake leaves some of the last
// three out: the next lower one runs in the place of one that is missing.
//
// No include guard: highway.h defines its macros anew for each set.

#ifndef CREMA_BACKEND_CPU_HIGHWAY_TARGETS
#define CREMA_BACKEND_CPU_HIGHWAY_TARGETS
#include <hwy/detect_targets.h>

#include "crema/vector_sets.hpp"

// SSSE3 and the sets beyond AVX-512's first cost time to compile and binary for little.
#ifdef HWY_AVX3_ZEN4
#define CREMA_HWY_ZEN4 HWY_AVX3_ZEN4
#else
#define CREMA_HWY_ZEN4 0
#endif
#ifdef HWY_AVX3_SPR
#define CREMA_HWY_SPR HWY_AVX3_SPR
#else
#define CREMA_HWY_SPR 0
#endif
#define CREMA_HWY_LEFT_OUT                                             \
  ((CREMA_HAS_SSE4 ? 0 : HWY_SSE4) | (CREMA_HAS_AVX2 ? 0 : HWY_AVX2) | \
   (CREMA_HAS_AVX512 ? 0 : HWY_AVX3))
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                                                 \
  (HWY_SSSE3 | HWY_AVX3_DL | CREMA_HWY_ZEN4 | CREMA_HWY_SPR | CREMA_HWY_LEFT_OUT | HWY_SVE | \
   HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif  // CREMA_BACKEND_CPU_HIGHWAY_TARGETS

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// What is compiled last, for the baseline and once for all sets. Where better sets are there,
// hardly a processor runs the kernels of the baseline, and with -O3 they take as long to compile as
// those of another set.
#if HWY_ARCH_X86 && HWY_TARGET == HWY_STATIC_TARGET && HWY_TARGETS != HWY_STATIC_TARGET && \
    HWY_COMPILER_GCC_ACTUAL && defined(__OPTIMIZE__)
#pragma GCC optimize("O1")
#endif

// How many sums a kernel may keep: AVX-512 and NEON have 32 vector registers, the others 16.
#undef CREMA_HAS_32_REGISTERS
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
#define CREMA_HAS_32_REGISTERS 1
#else
#define CREMA_HAS_32_REGISTERS 0
#endif

// The table of kernels in f64, of which float_kernels.hpp tells. f64 is what gradients are checked
// in: AVX-512 runs the kernels of AVX2, which saves compiling them once more.
#undef CREMA_KERNELS_F64
#if HWY_TARGET == HWY_AVX3 && (HWY_TARGETS & HWY_AVX2)
#define CREMA_KERNELS_F64(tables) N_AVX2::kernels_f64()
#else
#define CREMA_KERNELS_F64(tables) &tables<double>
#endif

#if defined(CREMA_BACKEND_CPU_HIGHWAY) == defined(HWY_TARGET_TOGGLE)
#ifdef CREMA_BACKEND_CPU_HIGHWAY
#undef CREMA_BACKEND_CPU_HIGHWAY
#else
#define CREMA_BACKEND_CPU_HIGHWAY
#endif

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls op.strip(d, i) until [0, n) is covered, each time for the lanes of d from i on: full
/// vectors, or narrower ones where n is less than one. The last call may overlap the one before it:
/// what op computes must not depend on what it wrote.
template <class D, class Op>
HWY_INLINE void cover(D d, int64_t n, const Op& op) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  if (n >= kLanes) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) op.strip(d, i);
    if (i < n) op.strip(d, n - kLanes);
  } else if constexpr (kLanes > 1) {
    cover(hn::Half<D>(), n, op);
  }
}

}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
