// BLAS through OpenBLAS, or oneDNN for f32 GEMM where the processor has wide vectors.
//
// OpenBLAS chooses its kernels by a list of processors. On a processor that is newer than the list,
// it may use AVX2 although there is AVX-512, at half the speed. It always packs both matrices,
// which is most of the work if one of them is thin, as in inner products of small batches. oneDNN
// chooses by the instructions of the processor and has kernels for thin matrices.
// tests/bench/gemm_bench.cpp compares the two.
#include "backend/cpu/blas.hpp"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <type_traits>

#include "backend/cpu/gemm_library.hpp"
#include "core/device.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

bool onednn_does_gemm() {
  static const bool is_there = !cpu_library().empty();
  return is_there && simd_level() >= SimdLevel::avx2;
}

// OpenBLAS built on OpenMP follows its setting by itself; one with threads of its own is told.
void follow_openmp_threads() {
  static const bool own_threads = openblas_get_parallel() == OPENBLAS_THREAD;
  if (!own_threads) return;
  const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  if (openblas_get_num_threads() != threads) openblas_set_num_threads(threads);
}

blasint narrow(int64_t size) {
  if (size > std::numeric_limits<blasint>::max())
    throw Error("a matrix dimension of ", size, " exceeds what OpenBLAS can address (",
                std::numeric_limits<blasint>::max(), "); use a smaller batch");
  return static_cast<blasint>(size);
}

CBLAS_TRANSPOSE cblas_op(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

// 0 overwrites, as BLAS has it: what is there may be anything, also NaN.
template <class T>
void scale_rows(int64_t rows, int64_t columns, T beta, T* c, int64_t stride) {
  if (beta == T{1}) return;
  parallel_for(rows, 65536 / std::max<int64_t>(columns, 1) + 1, [=](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      T* const begin = c + row * stride;
      if (beta == T{0}) {
        std::fill_n(begin, columns, T{0});
      } else {
        for (int64_t i = 0; i < columns; ++i) begin[i] *= beta;
      }
    }
  });
}

}  // namespace

template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0 || alpha == T{0}) {
    scale_rows(m, n, beta, c, ldc);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (onednn_does_gemm()) {
      onednn_gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      return;
    }
  }
  follow_openmp_threads();
  const auto call = [&](auto* function) {
    function(CblasRowMajor, cblas_op(transpose_a), cblas_op(transpose_b), narrow(m), narrow(n),
             narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
  };
  if constexpr (std::is_same_v<T, float>) {
    call(cblas_sgemm);
  } else {
    call(cblas_dgemm);
  }
}

template <class T>
void gemv(bool transpose, int64_t m, int64_t n, T alpha, const T* a, const T* x, T beta, T* y) {
  scale_rows(int64_t{1}, transpose ? n : m, beta, y, int64_t{0});
  if (m == 0 || n == 0 || alpha == T{0}) return;
  follow_openmp_threads();
  const auto call = [&](auto* function) {
    function(CblasRowMajor, cblas_op(transpose), narrow(m), narrow(n), alpha, a, narrow(n), x, 1,
             T{1}, y, 1);
  };
  if constexpr (std::is_same_v<T, float>) {
    call(cblas_sgemv);
  } else {
    call(cblas_dgemv);
  }
}

template <class T>
void axpy(int64_t n, T alpha, const T* x, T* y) {
  parallel_for(n, 65536, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] += alpha * x[i];
  });
}

template <class T>
double dot(int64_t n, const T* x, const T* y) {
  // Blocks are summed lane by lane, then the blocks in order: the result depends on n alone.
  constexpr int64_t kBlock = 8192;
  constexpr int64_t kLanes = 8;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  parallel_for(blocks, 8, [&, sums = sums.data()](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      double lanes[kLanes] = {};
      int64_t i = block * kBlock;
      const int64_t end = std::min(n, i + kBlock);
      for (; i + kLanes <= end; i += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          lanes[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
        }
      }
      for (; i < end; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      double sum = 0;
      for (const double lane : lanes) sum += lane;
      sums[block] = sum;
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

std::string blas_name() {
  if (onednn_does_gemm()) return cpu_library();
  // "OpenBLAS 0.3.21 NO_LAPACKE ...": the first two words.
  std::istringstream words(openblas_get_config());
  std::string library, version;
  words >> library >> version;
  return text(library, ' ', version, " (", openblas_get_corename(), ')');
}

template void gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);
template void gemv<float>(bool, int64_t, int64_t, float, const float*, const float*, float, float*);
template void gemv<double>(bool, int64_t, int64_t, double, const double*, const double*, double,
                           double*);
template void axpy<float>(int64_t, float, const float*, float*);
template void axpy<double>(int64_t, double, const double*, double*);
template double dot<float>(int64_t, const float*, const float*);
template double dot<double>(int64_t, const double*, const double*);

}  // namespace crema
