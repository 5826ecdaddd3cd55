// Compiled with -mavx512f -mfma where the target is x86-64.
#include "backend/cpu/direct_isa.hpp"

namespace crema {

const DirectKernels* direct_avx512() {
#if defined(__AVX512F__) || defined(CREMA_EMULATE_AVX512)
  static constexpr DirectKernels kernels = DirectCode<16>::table();
  return &kernels;
#else
  return nullptr;
#endif
}

}  // namespace crema
