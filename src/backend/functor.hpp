// Functions that the CPU and, when nvcc compiles the file, CUDA kernels both run. Beside this file
// only kit/passes.hpp and its like ask which compiler it is. What functors call on numbers: abs,
// sqrt, exp, expm1, log, log1p, tanh and select; backend/cpu/value-inl.hpp has them for vectors.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define CREMA_FUNCTOR __host__ __device__ inline
#else
#define CREMA_FUNCTOR inline
#endif

namespace crema {

using std::exp;
using std::tanh;

template <class T>
CREMA_FUNCTOR T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

}  // namespace crema
