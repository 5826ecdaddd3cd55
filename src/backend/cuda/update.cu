#include <type_traits>

#include "backend/cuda/kernels.cuh"
#include "backend/update.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

/// The driver of update rules: a block a chunk. *failed becomes 1 when some step was not finite.
template <Regularization R, class T, class Rule, class... History>
__global__ void update_kernel(UpdateRuns runs, Rule rule, UpdateStep step, double weight_decay,
                              const T* g, T* w, int* failed, History*... history) {
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    const ValueUpdate<T, R, Rule> update(rule, step, weight_decay, *chunk.run);
    T check = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      check += update(g[i], w[i], history[i]...);
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

template <class T, class Rule>
void launch_update(CudaBackend& backend, const UpdateRuns& runs, const Rule& rule,
                   const UpdateSettings& settings, const UpdateStep& step,
                   const UpdateArrays& arrays, int* failed) {
  const T* g = static_cast<const T*>(arrays.gradients);
  T* w = static_cast<T*>(arrays.parameters);
  with_histories<Rule>([&](size_t number) { return static_cast<T*>(arrays.histories[number]); },
                       [&](auto*... history) {
                         const auto kernel =
                             settings.regularization == Regularization::l2
                                 ? update_kernel<Regularization::l2, T, Rule,
                                                 std::remove_pointer_t<decltype(history)>...>
                                 : update_kernel<Regularization::l1, T, Rule,
                                                 std::remove_pointer_t<decltype(history)>...>;
                         kernel<<<blocks_for(runs), kBlockThreads, 0, backend.stream()>>>(
                             runs, rule, step, settings.weight_decay, g, w, failed, history...);
                       });
}

template <class Result>
Result fetch(CudaBackend& backend, const Result* from) {
  Result result{};
  backend.copy_to_host(&result, from, sizeof(Result));
  return result;
}

}  // namespace

bool device_update(DeviceBackend& device, const UpdateRuns& runs, const AnyUpdateRule& any,
                   const UpdateSettings& settings, const UpdateStep& step,
                   const UpdateArrays& arrays) {
  if (runs.chunks == 0) return true;
  CudaBackend& backend = cuda(device);
  auto* failed = static_cast<int*>(backend.scratch(sizeof(int)));
  backend.fill_zero(failed, sizeof(int));
  std::visit(
      [&](const auto& rule) {
        dispatch_float(arrays.dtype, [&](auto zero) {
          launch_update<decltype(zero)>(backend, runs, rule, settings, step, arrays, failed);
        });
      },
      any);
  cuda_check(cudaGetLastError(), "launching an update");
  return fetch(backend, failed) == 0;
}

double device_squares(DeviceBackend& device, const UpdateRuns& runs, const UpdateArrays& arrays) {
  if (runs.chunks == 0) return 0;
  CudaBackend& backend = cuda(device);
  return dispatch_float(arrays.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(arrays.gradients);
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
