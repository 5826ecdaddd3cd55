// Stands for oneDNN's GEMM in a build without it.
#include "backend/cpu/gemm_library.hpp"
#include "core/device.hpp"
#include "crema/error.hpp"

namespace crema {

std::string cpu_library() { return {}; }

void onednn_gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                 int64_t, float, float*, int64_t) {
  throw Error("this build of Crema has no oneDNN; build with oneDNN installed to use its GEMM");
}

}  // namespace crema
