// Compiled with -mavx512f -mfma where the target is x86-64.
#include "backend/cpu/winograd_isa.hpp"

namespace crema {

const WinogradKernels* winograd_avx512() {
#ifdef __AVX512F__
  static constexpr WinogradKernels kernels = Kernels<16>::table();
  return __builtin_cpu_supports("avx512f") ? &kernels : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace crema
