# CREMA_VECTOR_SETS: which sets of vector instructions kernels are compiled for, beside what each processor has. What is
# left out stands in crema/vector_sets.hpp, which core/simd.hpp and backend/cpu/highway.hpp read: all other files compile
# alike, and a change of the option compiles kernels alone.

set(CREMA_VECTOR_SETS ALL CACHE STRING
  "Kernels beside the baseline: ALL; AVX2, for builds that check; NATIVE, the best set of this processor")
set_property(CACHE CREMA_VECTOR_SETS PROPERTY STRINGS ALL AVX2 NATIVE)
if(NOT CREMA_VECTOR_SETS MATCHES "^(ALL|AVX2|NATIVE)$")
  message(FATAL_ERROR "CREMA_VECTOR_SETS=${CREMA_VECTOR_SETS}; use ALL, AVX2 or NATIVE")
endif()

# The names of SimdLevel.
set(crema_vector_sets sse4 avx2 avx512)
if(CREMA_VECTOR_SETS STREQUAL "AVX2")
  set(crema_vector_sets avx2)
elseif(CREMA_VECTOR_SETS STREQUAL "NATIVE")
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "CREMA_VECTOR_SETS=NATIVE asks the processor that compiles, and this build is for another one; use ALL")
  endif()
  # Anew each time: the folder may have come from another machine. As detect() in core/simd.cpp.
  unset(crema_native_set CACHE)
  unset(crema_native_set_compiles CACHE)
  try_run(crema_native_set crema_native_set_compiles
    SOURCE_FROM_CONTENT native_set.cpp "
#include <hwy/targets.h>
int main() {
  const auto targets = hwy::SupportedTargets();
  static_cast<void>(targets);
#ifdef __x86_64__
  if (targets & HWY_AVX2) return targets & HWY_AVX3 ? 3 : 2;
  if (targets & HWY_SSE4) return 1;
#endif
  return 0;
}
"
    LINK_LIBRARIES Highway::Highway)
  if(NOT crema_native_set_compiles OR NOT crema_native_set MATCHES "^[0-3]$")
    message(FATAL_ERROR "CREMA_VECTOR_SETS=NATIVE: a program that asks Highway for the processor does not compile or run; use ALL")
  endif()
  if(crema_native_set EQUAL 0)
    set(crema_vector_sets "")
  else()
    math(EXPR crema_native_set "${crema_native_set} - 1")
    list(GET crema_vector_sets ${crema_native_set} crema_vector_sets)
  endif()
endif()

set(definitions "")
foreach(level IN ITEMS sse4 avx2 avx512)
  string(TOUPPER "${level}" name)
  if(level IN_LIST crema_vector_sets)
    string(APPEND definitions "#define CREMA_HAS_${name} 1\n")
  else()
    string(APPEND definitions "#define CREMA_HAS_${name} 0\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT "${CREMA_GENERATED_DIR}/crema/vector_sets.hpp" CONTENT
"// Written by scripts/cmake/vector_sets.cmake.
#pragma once

${definitions}" @ONLY)
