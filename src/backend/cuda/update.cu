#include <type_traits>

#include "backend/cuda/kernels.cuh"
#include "backend/update.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

/// The driver of update rules: a block a chunk. `rates`: of each run. *failed becomes 1 when some
/// gradient or step was not finite. `average` may be null.
template <Regularization R, class T, class Rule, class... History>
__global__ void update_kernel(UpdateRuns runs, Rule rule, UpdateSettings settings, UpdateStep step,
                              const double* rates, const T* g, T* w, T* average, int* failed,
                              History*... history) {
  const T rest = 1 - static_cast<T>(step.average_decay);
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    const ValueUpdate<T, R, Rule> update(rule, settings, step, *chunk.run,
                                         rates[chunk.run - runs.runs]);
    T check = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      check += update(g[i], w[i], history[i]...);
      if (average != nullptr) average[i] += rest * (w[i] - average[i]);
    }
    // Whoever comes last writes the same.
    if (!(check == T{0})) *failed = 1;
  }
}

/// The sums of each chunk: see cpu_squares of backend/cpu/update.hpp.
template <Regularization R, class T, class Rule, class... History>
__global__ void step_squares_kernel(UpdateRuns runs, Rule rule, UpdateSettings settings,
                                    UpdateStep step, const T* g, const T* w, Squares* of_chunk,
                                    const History*... history) {
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    const ValueUpdate<T, R, Rule> update(rule, settings, step, *chunk.run, 1);
    double values = 0, steps = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      const auto value = static_cast<double>(w[i]);
      const auto by = static_cast<double>(step_of(update, g[i], w[i], history[i]...));
      values += value * value;
      steps += by * by;
    }
    values = block_sum(values);
    steps = block_sum(steps);
    if (threadIdx.x == 0) of_chunk[number] = {values, steps};
  }
}

/// The rate of each run, a block a run. Sums are read if there are local rates.
__global__ void rates_kernel(UpdateRuns runs, UpdateSettings settings, double rate,
                             const Squares* of_chunk, double* rates) {
  for (int64_t number = blockIdx.x; number < runs.count; number += gridDim.x) {
    const UpdateRun& run = runs.runs[number];
    Squares sum;
    if (settings.local_rate != LocalRate::none) {
      for (int64_t i = threadIdx.x; i < chunks_of(run); i += kBlockThreads) {
        sum.values += of_chunk[run.first_chunk + i].values;
        sum.steps += of_chunk[run.first_chunk + i].steps;
      }
      sum.values = block_sum(sum.values);
      sum.steps = block_sum(sum.steps);
    }
    if (threadIdx.x == 0) rates[number] = rate_of(settings, rate, run, sum);
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

/// A block for each of `count` chunks or runs, up to the blocks of a grid.
unsigned blocks_for(int64_t count) {
  constexpr int64_t kMaximumBlocks = 65535;
  return static_cast<unsigned>(std::min(count, kMaximumBlocks));
}

/// Memory of an update on the device.
struct UpdateScratch {
  UpdateScratch(CudaBackend& backend, const UpdateRuns& runs) {
    const auto chunks = static_cast<size_t>(runs.chunks), count = static_cast<size_t>(runs.count);
    of_chunk = static_cast<Squares*>(
        backend.scratch(chunks * sizeof(Squares) + count * sizeof(double) + sizeof(int)));
    rates = reinterpret_cast<double*>(of_chunk + chunks);
    failed = reinterpret_cast<int*>(rates + count);
    backend.fill_zero(failed, sizeof(int));
  }

  Squares* of_chunk;
  double* rates;
  int* failed;
};

/// body(regularization as a type, histories...), for the kernels of a rule.
template <class T, class Rule, class Body>
void with_arrays(const UpdateSettings& settings, const UpdateArrays& arrays, const Body& body) {
  with_regularization(settings.regularization, [&](auto regularization) {
    with_histories<Rule>([&](size_t number) { return static_cast<T*>(arrays.histories[number]); },
                         [&](auto*... history) { body(regularization, history...); });
  });
}

template <class T, class Rule>
void launch_squares(CudaBackend& backend, const UpdateRuns& runs, const Rule& rule,
                    const UpdateSettings& settings, const UpdateStep& step,
                    const UpdateArrays& arrays, Squares* of_chunk) {
  const T* g = static_cast<const T*>(arrays.gradients);
  const T* w = static_cast<const T*>(arrays.parameters);
  with_arrays<T, Rule>(settings, arrays, [&](auto regularization, auto*... history) {
    step_squares_kernel<decltype(regularization)::value>
        <<<blocks_for(runs.chunks), kBlockThreads, 0, backend.stream()>>>(
            runs, rule, settings, step, g, w, of_chunk, const_cast<const T*>(history)...);
  });
}

template <class T, class Rule>
void launch_update(CudaBackend& backend, const UpdateRuns& runs, const Rule& rule,
                   const UpdateSettings& settings, const UpdateStep& step,
                   const UpdateArrays& arrays, const UpdateScratch& scratch) {
  if constexpr (Rule::kLocalRate == LocalRate::trust) {
    launch_squares<T>(backend, runs, rule, settings, step, arrays, scratch.of_chunk);
  } else if (settings.local_rate != LocalRate::none) {
    UpdateSettings of_gradient = settings;
    of_gradient.weight_decay = 0;
    launch_squares<T>(backend, runs, GradientAsStep(), of_gradient, step, arrays, scratch.of_chunk);
  }
  rates_kernel<<<blocks_for(runs.count), kBlockThreads, 0, backend.stream()>>>(
      runs, settings, step.rate, scratch.of_chunk, scratch.rates);
  const T* g = static_cast<const T*>(arrays.gradients);
  T* w = static_cast<T*>(arrays.parameters);
  T* average = static_cast<T*>(arrays.average);
  with_arrays<T, Rule>(settings, arrays, [&](auto regularization, auto*... history) {
    update_kernel<decltype(regularization)::value>
        <<<blocks_for(runs.chunks), kBlockThreads, 0, backend.stream()>>>(
            runs, rule, settings, step, scratch.rates, g, w, average, scratch.failed, history...);
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
  const UpdateScratch scratch(backend, runs);
  std::visit(
      [&](const auto& rule) {
        dispatch_float(arrays.dtype, [&](auto zero) {
          launch_update<decltype(zero)>(backend, runs, rule, settings, step, arrays, scratch);
        });
      },
      any);
  cuda_check(cudaGetLastError(), "launching an update");
  return fetch(backend, scratch.failed) == 0;
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
    squares_kernel<<<blocks_for(runs.chunks), kBlockThreads, 0, backend.stream()>>>(runs, from,
                                                                                    of_chunk);
    finish_sum_kernel<<<1, kBlockThreads, 0, backend.stream()>>>(static_cast<int>(chunks), of_chunk,
                                                                 1.0, sum);
    cuda_check(cudaGetLastError(), "launching a sum");
    return fetch(backend, sum);
  });
}

}  // namespace crema
