#include <type_traits>

#include "backend/cuda/kernels.cuh"
#include "backend/update.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

/// Fails the run where a gradient is not finite. Whoever comes last writes the same.
template <class T>
__global__ void finite_kernel(UpdateRuns runs, const T* g, RunBlock* run) {
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    T check = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      check += g[i] - g[i];
    }
    if (!(check == T{0})) run->fail(DeviceFailure::gradient);
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

/// One block: adds up the squares of all gradients.
__global__ void norm_kernel(int64_t count, const double* of_chunk, RunBlock* run,
                            const LossScaleState* scale, UpdateNumbers* numbers) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kBlockThreads) sum += of_chunk[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) limit_norm(*run, *numbers, scale, sum);
}

/// The sums of each chunk: see cpu_squares of backend/cpu/update.hpp. Of the rule's steps, or of
/// the gradients as steps.
template <bool kOfRule, Regularization R, class T, class Rule, class... History>
__global__ void step_squares_kernel(UpdateRuns runs, const UpdateBlock<Rule>* block,
                                    const LossScaleState* scale, const T* g, const T* w,
                                    Squares* of_chunk, const History*... history) {
  using By = std::conditional_t<kOfRule, Rule, GradientAsStep>;
  UpdateSettings settings = block->numbers.settings;
  if (!kOfRule) settings.weight_decay = 0;
  const UpdateStep step = scaled_step(block->numbers, scale);
  const By rule = [&] {
    if constexpr (kOfRule) {
      return block->rule;
    } else {
      return By();
    }
  }();
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    const ValueUpdate<T, R, By> update(rule, settings, step, *chunk.run, 1);
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
__global__ void rates_kernel(UpdateRuns runs, const UpdateNumbers* numbers, const Squares* of_chunk,
                             double* rates) {
  const UpdateSettings settings = numbers->settings;
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
    if (threadIdx.x == 0) rates[number] = rate_of(settings, numbers->step.rate, run, sum);
  }
}

/// Each thread has written its values of the chunk. One text for all rules.
template <class T>
__device__ __noinline__ void write_copies(const UpdateRuns& runs, const UpdateChunk& chunk,
                                          const CopyTable& copies, const T* w) {
  const int64_t offset = chunk.run->offset;
  copies.write(chunk.run - runs.runs, w + offset, chunk.begin - offset, chunk.end - offset,
               static_cast<int64_t>(threadIdx.x), kBlockThreads);
}

/// The driver of update rules: a block a chunk. `rates`: of each run. Nothing changes in a run that
/// has failed. `average` may be null.
template <Regularization R, class T, class Rule, class... History>
__global__ void update_kernel(UpdateRuns runs, const UpdateBlock<Rule>* block, const double* rates,
                              const T* g, T* w, T* average, CopyTable copies, RunBlock* state,
                              const LossScaleState* scale, History*... history) {
  if (state->failed()) return;
  const UpdateNumbers numbers = block->numbers;
  const UpdateStep step = scaled_step(numbers, scale);
  const Rule rule = block->rule;
  const T rest = 1 - static_cast<T>(numbers.step.average_decay);
  for (int64_t number = blockIdx.x; number < runs.chunks; number += gridDim.x) {
    const UpdateChunk chunk = runs.chunk(number);
    const ValueUpdate<T, R, Rule> update(rule, numbers.settings, step, *chunk.run,
                                         rates[chunk.run - runs.runs]);
    T check = 0;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kBlockThreads) {
      check += update(g[i], w[i], history[i]...);
      if (average != nullptr) average[i] += rest * (w[i] - average[i]);
    }
    if (copies.first != nullptr) write_copies(runs, chunk, copies, w);
    // Whoever comes last writes the same. It becomes a failure behind the update: all blocks of
    // this one do the same.
    if (!(check == T{0})) state->report.bad_step = 1;
  }
}

__global__ void finish_kernel(RunBlock* run, LossScaleState* scale) { finish_update(*run, scale); }

/// A block for each of `count` chunks or runs, up to the blocks of a grid.
unsigned blocks_for(int64_t count) {
  constexpr int64_t kMaximumBlocks = 65535;
  return static_cast<unsigned>(std::min(count, kMaximumBlocks));
}

/// Memory of an update on the device.
struct UpdateScratch {
  UpdateScratch(CudaBackend& backend, const UpdateRuns& runs) {
    const auto chunks = static_cast<size_t>(runs.chunks), count = static_cast<size_t>(runs.count);
    of_chunk =
        static_cast<Squares*>(backend.scratch(chunks * sizeof(Squares) + count * sizeof(double)));
    rates = reinterpret_cast<double*>(of_chunk + chunks);
  }

  Squares* of_chunk;
  double* rates;
};

template <class T, class Rule>
void launch_update(CudaBackend& backend, const DeviceUpdate& job, const UpdateNumbers& chosen,
                   const UpdateScratch& scratch) {
  const UpdateRuns& runs = job.runs;
  const unsigned blocks = blocks_for(runs.chunks);
  auto* block = static_cast<UpdateBlock<Rule>*>(job.block);
  const T* g = static_cast<const T*>(job.arrays.gradients);
  T* w = static_cast<T*>(job.arrays.parameters);
  T* average = static_cast<T*>(job.arrays.average);
  if (chosen.most_norm > 0) {
    auto* of_chunk = reinterpret_cast<double*>(scratch.of_chunk);
    squares_kernel<<<blocks, kBlockThreads, 0, backend.stream()>>>(runs, g, of_chunk);
    norm_kernel<<<1, kBlockThreads, 0, backend.stream()>>>(runs.chunks, of_chunk, job.run,
                                                           job.loss_scale, &block->numbers);
  } else {
    finite_kernel<<<blocks, kBlockThreads, 0, backend.stream()>>>(runs, g, job.run);
  }
  with_regularization(chosen.settings.regularization, [&](auto regularization) {
    constexpr Regularization kBy = decltype(regularization)::value;
    with_histories<Rule>(
        [&](size_t number) { return static_cast<T*>(job.arrays.histories[number]); },
        [&](auto*... history) {
          if constexpr (Rule::kLocalRate == LocalRate::trust) {
            step_squares_kernel<true, kBy><<<blocks, kBlockThreads, 0, backend.stream()>>>(
                runs, block, job.loss_scale, g, w, scratch.of_chunk,
                const_cast<const T*>(history)...);
          } else if (chosen.settings.local_rate != LocalRate::none) {
            step_squares_kernel<false, kBy><<<blocks, kBlockThreads, 0, backend.stream()>>>(
                runs, block, job.loss_scale, g, w, scratch.of_chunk);
          }
          rates_kernel<<<blocks_for(runs.count), kBlockThreads, 0, backend.stream()>>>(
              runs, &block->numbers, scratch.of_chunk, scratch.rates);
          update_kernel<kBy><<<blocks, kBlockThreads, 0, backend.stream()>>>(
              runs, block, scratch.rates, g, w, average, job.copies, job.run, job.loss_scale,
              history...);
        });
  });
  finish_kernel<<<1, 1, 0, backend.stream()>>>(job.run, job.loss_scale);
}

}  // namespace

void device_update(DeviceBackend& device, const DeviceUpdate& update, const AnyUpdateRule& any,
                   const UpdateNumbers& numbers) {
  if (update.runs.chunks == 0) return;
  CudaBackend& backend = cuda(device);
  const UpdateScratch scratch(backend, update.runs);
  std::visit(
      [&]<class Rule>(const Rule&) {
        static_assert(sizeof(UpdateBlock<Rule>) <= kUpdateBlockBytes);
        dispatch_float(update.arrays.dtype, [&](auto zero) {
          launch_update<decltype(zero), Rule>(backend, update, numbers, scratch);
        });
      },
      any);
  cuda_check(cudaGetLastError(), "launching an update");
}

}  // namespace crema
