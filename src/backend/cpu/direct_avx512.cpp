// Compiled with -mavx512f -mfma where the target is x86-64.
#include "backend/cpu/direct_isa.hpp"

namespace crema {

const DirectKernels* direct_avx512() {
#ifdef __AVX512F__
  static constexpr DirectKernels kernels = DirectCode<16>::table();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma") ? &kernels : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace crema
