#include "backend/cuda/kernels.cuh"
#include "backend/update.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

template <class T, Regularization R>
__global__ void sgd_kernel(UpdateRuns runs, SgdStep step, const T* g, T* w, T* v, int* failed) {
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    const SgdMath<T, R> math(step, *chunk.run);
    T check = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      check += math.update(g[i], w[i], v[i]);
    }
    // Whoever comes last writes the same.
    if (!(check == T{0})) *failed = 1;
  }
}

template <class T>
__global__ void squares_kernel(UpdateRuns runs, const T* values, double* of_chunk) {
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    double sum = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) of_chunk[number] = sum;
  }
}

/// A block a chunk, up to the blocks of a grid.
unsigned blocks_for(const UpdateRuns& runs) {
  constexpr int64_t kMaximumBlocks = 65535;
  return static_cast<unsigned>(std::min(runs.chunks, kMaximumBlocks));
}

template <class Result>
Result fetch(CudaBackend& backend, const Result* from) {
  Result result{};
  backend.copy_to_host(&result, from, sizeof(Result));
  return result;
}

}  // namespace

bool device_sgd(DeviceBackend& device, const UpdateRuns& runs, const SgdStep& step,
                Regularization regularization, const Tensor& gradients, Tensor& parameters,
                Tensor& history) {
  if (runs.chunks == 0) return true;
  CudaBackend& backend = cuda(device);
  return dispatch_float(parameters.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = gradients.device<T>(backend);
    T* w = parameters.device_mut<T>(backend);
    T* v = history.device_mut<T>(backend);
    auto* failed = static_cast<int*>(backend.scratch(sizeof(int)));
    backend.fill_zero(failed, sizeof(int));
    const auto kernel = regularization == Regularization::l2 ? sgd_kernel<T, Regularization::l2>
                                                             : sgd_kernel<T, Regularization::l1>;
    kernel<<<blocks_for(runs), kBlockThreads, 0, backend.stream()>>>(runs, step, g, w, v, failed);
    cuda_check(cudaGetLastError(), "launching an update");
    return fetch(backend, failed) == 0;
  });
}

double device_squares(DeviceBackend& device, const UpdateRuns& runs, const Tensor& values) {
  if (runs.chunks == 0) return 0;
  CudaBackend& backend = cuda(device);
  return dispatch_float(values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = values.device<T>(backend);
    const auto chunks = static_cast<size_t>(runs.chunks);
    auto* of_chunk = static_cast<double*>(backend.scratch((chunks + 1) * sizeof(double)));
    double* sum = of_chunk + chunks;
    squares_kernel<<<blocks_for(runs), kBlockThreads, 0, backend.stream()>>>(runs, from, of_chunk);
    finish_sum_kernel<<<1, kBlockThreads, 0, backend.stream()>>>(static_cast<int>(chunks), of_chunk,
                                                                 1.0, sum);
    cuda_check(cudaGetLastError(), "launching a sum");
    return fetch(backend, sum);
  });
}

}  // namespace crema
