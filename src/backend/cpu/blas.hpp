// The BLAS calls that layers make, for float and double; row-major.
//
// Behind them stands OpenBLAS, or oneDNN's GEMM for f32 where the processor has AVX2 or wider and
// the build has oneDNN (see blas.cpp). The choice is made once a process, not by timing, so results
// are reproducible.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

/// C = alpha * op(A) op(B) + beta * C; op(A) is (m, k), op(B) (k, n), C (m, n). Leading dimensions
/// are row strides. Uses all threads of the calling thread's OpenMP setting.
template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// With densely packed matrices.
template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          const T* b, T beta, T* c) {
  gemm<T>(transpose_a, transpose_b, m, n, k, alpha, a, transpose_a ? m : k, b, transpose_b ? k : n,
          beta, c, n);
}

/// y = alpha * op(A) x + beta * y; A is (m, n).
template <class T>
void gemv(bool transpose, int64_t m, int64_t n, T alpha, const T* a, const T* x, T beta, T* y);

/// y += alpha * x
template <class T>
void axpy(int64_t n, T alpha, const T* x, T* y);

/// Sum of x[i] * y[i], added up in double.
template <class T>
double dot(int64_t n, const T* x, const T* y);

/// "OpenBLAS 0.3.21 (Haswell)" or "oneDNN 2.6.3": which library does f32 GEMM.
std::string blas_name();

}  // namespace crema
