// Matrix products on either side, for sources that include layer_support/passes.hpp.
#pragma once

#include "crema/arithmetic.hpp"
#include "layer_support/matrix_products.hpp"
#include "layer_support/passes.hpp"

#ifdef __CUDACC__
#include "backend/cuda/gemm.hpp"
#endif

namespace crema {

/// c = op(a) * op(b) + beta * c for dense row-major matrices; op(a) is (m, k), op(b) (k, n), c
/// (m, n). `math`: that of the layer (crema/arithmetic.hpp), for a device.
template <class T>
void gemm(const ComputeDevice& device, [[maybe_unused]] Math math, bool transpose_a,
          bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T beta, T* c) {
#ifdef __CUDACC__
  if (!device.on_host()) {
    return cuda_gemm<T>(cuda(*device.backend()), math, transpose_a, transpose_b, m, n, k, 1, a, b,
                        beta, c);
  }
#endif
  require_host(device);
  if (queued_for_test(device,
                      [=] { HostGemm<T>()(transpose_a, transpose_b, m, n, k, a, b, beta, c); }))
    return;
  HostGemm<T>()(transpose_a, transpose_b, m, n, k, a, b, beta, c);
}

/// gemm() as an object.
template <class T>
struct SideGemm {
  ComputeDevice device;
  Math math = Math::tf32;
  void operator()(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
                  const T* b, T beta, T* c) const {
    gemm<T>(device, math, transpose_a, transpose_b, m, n, k, a, b, beta, c);
  }
};

/// The products of a matrix by the library of a side.
template <class T>
using LibraryProducts = MatrixProducts<T, SideGemm<T>>;

}  // namespace crema
