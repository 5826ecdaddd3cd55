#include "backend/cuda/gemm.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "crema/error.hpp"

namespace crema {
namespace {

int to_int(int64_t extent) {
  if (extent > std::numeric_limits<int>::max())
    throw Error("cuBLAS takes no matrix with ", extent, " rows or columns; use a smaller batch");
  return static_cast<int>(extent);
}

cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

// cuBLAS stores columns: our (m, n) is its (n, m), and c' = op(b)' op(a)'.
template <class T>
void cuda_gemm(CudaBackend& backend, Math math, bool transpose_a, bool transpose_b, int64_t m,
               int64_t n, int64_t k, T alpha, const T* a, const T* b, T beta, T* c) {
  if (m == 0 || n == 0) return;
  const int row_a = to_int(std::max<int64_t>(transpose_a ? m : k, 1));
  const int row_b = to_int(std::max<int64_t>(transpose_b ? k : n, 1));
  constexpr bool kSingle = std::is_same_v<T, float>;
  constexpr cudaDataType_t kType = kSingle ? CUDA_R_32F : CUDA_R_64F;
  // The handle stays in its default mode, in which f32 is f32 unless the call says otherwise.
  cublasComputeType_t compute = kSingle ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F;
  if (kSingle && math == Math::tf32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  cuda_check(cublasGemmEx(backend.blas(), operation(transpose_b), operation(transpose_a), to_int(n),
                          to_int(m), to_int(k), &alpha, b, kType, row_b, a, kType, row_a, &beta, c,
                          kType, to_int(n), compute, CUBLAS_GEMM_DEFAULT),
             "cublasGemmEx");
}

template void cuda_gemm(CudaBackend&, Math, bool, bool, int64_t, int64_t, int64_t, float,
                        const float*, const float*, float, float*);
template void cuda_gemm(CudaBackend&, Math, bool, bool, int64_t, int64_t, int64_t, double,
                        const double*, const double*, double, double*);

}  // namespace crema
