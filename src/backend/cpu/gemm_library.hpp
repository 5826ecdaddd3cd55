// A second library that can do f32 GEMM: oneDNN (backend/onednn), or none (backend/no_onednn).
#pragma once

#include <cstdint>

namespace crema {

/// As gemm<float> of blas.hpp; all sizes positive. Must not be called if cpu_library() is "".
void onednn_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                 int64_t ldc);

}  // namespace crema
