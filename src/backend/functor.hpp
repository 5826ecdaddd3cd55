// Marks a function as one that the CPU and, when nvcc compiles the file, CUDA kernels both run. The
// only place that asks which compiler it is.
#pragma once

#ifdef __CUDACC__
#define CREMA_FUNCTOR __host__ __device__ inline
#else
#define CREMA_FUNCTOR inline
#endif
