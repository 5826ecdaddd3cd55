// Stands for oneDNN's GEMM in a build without it.
#include "backend/cpu/gemm_library.hpp"
#include "crema/error.hpp"

namespace crema {

std::string onednn_gemm_name() { return {}; }

void onednn_gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                 int64_t, float, float*, int64_t) {
  throw Error("this build of Crema has no oneDNN; build with oneDNN installed to use its GEMM");
}

}  // namespace crema
