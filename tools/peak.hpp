// The machine's ceiling, to compare speeds with.
#pragma once

#include <string>

namespace crema::tools {

/// The widest vectors of this processor that matter to kernels: "AVX-512", "AVX2", "SSE4", "SSE2",
/// or "128-bit vectors" on other processors.
std::string vector_extension();

/// Measured f32 multiply-adds in registers on `threads` threads, in GFLOP/s; takes about 0.3 s.
double fma_peak_gflops(int threads);

}  // namespace crema::tools
