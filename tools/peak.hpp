// The machine's ceiling, to compare speeds with.
#pragma once

#include <string>
#include <vector>

#include "analysis/layer_costs.hpp"

namespace crema::tools {

/// The widest vectors of this processor that matter to kernels: "AVX-512", "AVX2", "SSE4", "SSE2",
/// or "128-bit vectors" on other processors.
std::string vector_extension();

/// Measured f32 multiply-adds in registers on `threads` threads, in GFLOP/s; takes about 0.3 s.
double fma_peak_gflops(int threads);

/// What copies of 256 KB to 256 MB, read and written together, move on `threads` threads: small
/// ones from caches to caches. Takes about 0.3 s and 256 MB of memory, which it gives back.
std::vector<CostLimits::Copy> copy_rates(int threads);

/// Both, for the layers of a net.
CostLimits cpu_limits(int threads);

}  // namespace crema::tools
