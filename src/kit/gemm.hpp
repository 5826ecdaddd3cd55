// Matrix products on either side, for sources that include kit/passes.hpp.
#pragma once

#include "backend/cpu/blas.hpp"
#include "kit/passes.hpp"

#ifdef __CUDACC__
#include "backend/cuda/gemm.hpp"
#endif

namespace crema {

/// c = op(a) * op(b) + beta * c for dense row-major matrices; op(a) is (m, k), op(b) (k, n), c
/// (m, n).
template <class T>
void gemm(const Side& side, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
          const T* a, const T* b, T beta, T* c) {
#ifdef __CUDACC__
  if (side.device() != nullptr) {
    return cuda_gemm<T>(cuda(*side.device()), transpose_a, transpose_b, m, n, k, 1, a, b, beta, c);
  }
#endif
  require_host(side);
  if (m == 1 && !transpose_a) {
    gemv<T>(!transpose_b, transpose_b ? n : k, transpose_b ? k : n, 1, b, a, beta, c);
  } else {
    gemm<T>(transpose_a, transpose_b, m, n, k, 1, a, b, beta, c);
  }
}

}  // namespace crema
