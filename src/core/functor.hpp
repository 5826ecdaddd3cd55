// Functions that the CPU and, when nvcc compiles the file, CUDA kernels both run. Beside this file
// only layer_support/passes.hpp and its like ask which compiler it is. What functors call on
// numbers: abs, sqrt, exp, expm1, log, log1p, pow, tanh, erfc, sigmoid and select;
// backend/cpu/value-inl.hpp has them for vectors.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define CREMA_FUNCTOR __host__ __device__ inline
#else
#define CREMA_FUNCTOR inline
#endif

namespace crema {

using std::abs;
using std::erfc;
using std::exp;
using std::expm1;
using std::log;
using std::log1p;
using std::sqrt;
using std::tanh;

/// Who runs a pass over the values of one position: a single thread, or a warp whose lanes share
/// them (WarpLanes, backend/cuda/kernels.cuh). Lane `first` of `count` takes the values first,
/// first + count, ...; sum and max combine one value of each lane, and all lanes get the result.
struct OneLane {
  static constexpr int64_t count = 1;
  static constexpr int64_t first = 0;
  template <class T>
  CREMA_FUNCTOR T sum(T value) const {
    return value;
  }
  template <class T>
  CREMA_FUNCTOR T max(T value) const {
    return value;
  }
};

template <class T>
CREMA_FUNCTOR T pow(T x, double exponent) {
  return std::pow(x, static_cast<T>(exponent));
}

/// Where exp overflows to infinity, the result is 0 as it should.
template <class T>
CREMA_FUNCTOR T sigmoid(T x) {
  return T{1} / (T{1} + exp(-x));
}

template <class T>
CREMA_FUNCTOR T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

}  // namespace crema
