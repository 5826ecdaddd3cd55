#include <oneapi/dnnl/dnnl.h>

#include "backend/cpu/gemm_library.hpp"
#include "core/device.hpp"
#include "crema/error.hpp"

namespace crema {

std::string cpu_library() {
  const dnnl_version_t& version = *dnnl_version();
  return text("oneDNN ", version.major, '.', version.minor, '.', version.patch);
}

void onednn_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                 int64_t ldc) {
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                                          alpha, a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success)
    throw Error("oneDNN's GEMM of ", m, "x", k, " by ", k, "x", n, " failed with status ",
                static_cast<int>(status));
}

}  // namespace crema
