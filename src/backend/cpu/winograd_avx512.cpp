// Compiled with -mavx512f -mfma where the target is x86-64.
#include "backend/cpu/winograd_isa.hpp"

namespace crema {

const WinogradKernels* winograd_avx512() {
#if defined(__AVX512F__) || defined(CREMA_EMULATE_AVX512)
  static constexpr WinogradKernels kernels = Kernels<16>::table();
  return &kernels;
#else
  return nullptr;
#endif
}

}  // namespace crema
