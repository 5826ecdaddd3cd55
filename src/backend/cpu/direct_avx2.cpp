// Compiled with -mavx2 -mfma where the target is x86-64.
#include "backend/cpu/direct_isa.hpp"

namespace crema {

const DirectKernels* direct_avx2() {
#ifdef __AVX2__
  static constexpr DirectKernels kernels = DirectCode<8>::table();
  return &kernels;
#else
  return nullptr;
#endif
}

}  // namespace crema
