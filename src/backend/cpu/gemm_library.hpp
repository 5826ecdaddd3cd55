// A second library that can do f32 GEMM: oneDNN (backend/onednn), or none (backend/no_onednn).
#pragma once

#include <cstdint>
#include <string>

namespace crema {

/// "oneDNN 2.6.3", or "" when the build has none; onednn_gemm must not be called then.
std::string onednn_gemm_name();
/// As gemm<float> of blas.hpp; all sizes positive.
void onednn_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                 int64_t ldc);

}  // namespace crema
