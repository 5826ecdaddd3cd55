// Compiled with -mavx2 -mfma where the target is x86-64.
#include "backend/cpu/winograd_isa.hpp"

namespace crema {

const WinogradKernels* winograd_avx2() {
#ifdef __AVX2__
  static constexpr WinogradKernels kernels = Kernels<8>::table();
  return &kernels;
#else
  return nullptr;
#endif
}

}  // namespace crema
