// Matrix products on the device, for row-major matrices, as backend/cpu/blas.hpp has them.
#pragma once

#include "backend/cuda/cuda_backend.hpp"
#include "crema/arithmetic.hpp"

namespace crema {

/// c = alpha * op(a) * op(b) + beta * c in the backend's stream. op(a) is (m, k), op(b) (k, n), c
/// (m, n); a transposed matrix lies in memory as (k, m) or (n, k). T: float,
/// multiplied as `math` says, or double.
template <class T>
void cuda_gemm(CudaBackend& backend, Math math, bool transpose_a, bool transpose_b, int64_t m,
               int64_t n, int64_t k, T alpha, const T* a, const T* b, T beta, T* c);

}  // namespace crema
