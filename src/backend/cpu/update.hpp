// The driver of update rules on the CPU.
#pragma once

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/update_math.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// Chunks of an update that are worth a thread.
inline constexpr int64_t kUpdateGrain = 4;

/// True when gradients and steps were all finite.
template <class T, class Update, class... History>
bool update_chunk(const UpdateChunk& chunk, const Update& update, const T* g, T* w,
                  History*... history) {
  T check = 0;
#pragma omp simd reduction(+ : check)
  for (int64_t i = chunk.begin; i < chunk.end; ++i) check += update(g[i], w[i], history[i]...);
  return check == 0;
}

template <class T>
void average_chunk(const UpdateChunk& chunk, T keep, const T* w, T* average) {
  const T rest = 1 - keep;
#pragma omp simd
  for (int64_t i = chunk.begin; i < chunk.end; ++i) average[i] += rest * (w[i] - average[i]);
}

/// Moves the parameters of `runs` in one pass by the rule, which keeps `histories`; `rates` has one
/// for each run. All tensors are of the arena's size and type. `average`, if not null, follows the
/// parameters by step.average_decay. False when some gradient or step was not finite.
template <class Rule>
bool cpu_update(const UpdateRuns& runs, const Rule& rule, const UpdateSettings& settings,
                const UpdateStep& step, std::span<const double> rates, const Tensor& gradients,
                Tensor& parameters, std::span<Tensor> histories, Tensor* average = nullptr) {
  return dispatch_float(parameters.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = gradients.read<T>();
    const Changing<T> writing = parameters.changing<T>();
    T* const w = writing;
    T* const a = average != nullptr ? average->change<T>() : nullptr;
    std::atomic<bool> finite = true;
    const auto run = [&](auto regularization, auto*... history) {
      using Update = ValueUpdate<T, decltype(regularization)::value, Rule>;
      parallel_for(runs.chunks, kUpdateGrain, [&](int64_t begin, int64_t end) {
        for (int64_t number = begin; number < end; ++number) {
          const UpdateChunk chunk = runs.chunk(number);
          const double rate = rates[static_cast<size_t>(chunk.run - runs.runs)];
          const Update update(rule, settings, step, *chunk.run, rate);
          if (!update_chunk(chunk, update, g, w, history...)) finite = false;
          // The chunk is still in the cache.
          if (a != nullptr) average_chunk(chunk, static_cast<T>(step.average_decay), w, a);
        }
      });
    };
    with_regularization(settings.regularization, [&](auto regularization) {
      with_histories<Rule>([&](size_t number) { return histories[number].change<T>(); },
                           [&](auto*... history) { run(regularization, history...); });
    });
    return finite.load();
  });
}

template <class T>
double squares_of(const T* values, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

/// Sums of the chunk's values and of the steps that it would make; histories stay as they are.
template <class T, class Update, class... History>
Squares squares_of_chunk(const UpdateChunk& chunk, const Update& update, const T* g, const T* w,
                         const History*... history) {
  // Steps in T and sums in double are vectors of different lengths: a loop for each.
  constexpr int64_t kBlock = 512;
  T steps[kBlock];
  Squares sums;
  for (int64_t from = chunk.begin; from < chunk.end; from += kBlock) {
    const int64_t count = std::min(kBlock, chunk.end - from);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      steps[i] = step_of(update, g[from + i], w[from + i], history[from + i]...);
    }
    sums.values += squares_of(w + from, count);
    sums.steps += squares_of(steps, count);
  }
  return sums;
}

/// The sums of each run, of its values and of the rule's steps at rate 1, which are not taken.
/// `of_chunk` is memory for sums of chunks: results do not depend on the number of threads.
template <class Rule>
void cpu_squares(const UpdateRuns& runs, const Rule& rule, const UpdateSettings& settings,
                 const UpdateStep& step, const Tensor& gradients, const Tensor& parameters,
                 std::span<const Tensor> histories, std::vector<Squares>& of_chunk,
                 std::vector<Squares>& of_run) {
  of_chunk.resize(static_cast<size_t>(runs.chunks));
  dispatch_float(parameters.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const g = gradients.read<T>();
    const T* const w = parameters.read<T>();
    const auto run = [&](auto regularization, const auto*... history) {
      using Update = ValueUpdate<T, decltype(regularization)::value, Rule>;
      parallel_for(runs.chunks, kUpdateGrain, [&](int64_t begin, int64_t end) {
        for (int64_t number = begin; number < end; ++number) {
          const UpdateChunk chunk = runs.chunk(number);
          const Update update(rule, settings, step, *chunk.run, 1);
          of_chunk[static_cast<size_t>(number)] = squares_of_chunk(chunk, update, g, w, history...);
        }
      });
    };
    with_regularization(settings.regularization, [&](auto regularization) {
      with_histories<Rule>([&](size_t number) { return histories[number].read<T>(); },
                           [&](const auto*... history) { run(regularization, history...); });
    });
  });
  of_run.assign(static_cast<size_t>(runs.count), {});
  for (int64_t number = 0; number < runs.chunks; ++number) {
    Squares& sum = of_run[static_cast<size_t>(runs.chunk(number).run - runs.runs)];
    sum.values += of_chunk[static_cast<size_t>(number)].values;
    sum.steps += of_chunk[static_cast<size_t>(number)].steps;
  }
}

}  // namespace crema
