// The driver of update rules on the CPU.
#pragma once

#include <atomic>
#include <span>
#include <type_traits>

#include "backend/update_math.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// Chunks of an update that are worth a thread.
inline constexpr int64_t kUpdateGrain = 4;

/// True when all steps were finite.
template <Regularization R, class T, class Rule, class... History>
bool update_chunk(const UpdateChunk& chunk, const Rule& rule, const UpdateStep& step,
                  double weight_decay, const T* g, T* w, History*... history) {
  const ValueUpdate<T, R, Rule> update(rule, step, weight_decay, *chunk.run);
  T check = 0;
#pragma omp simd reduction(+ : check)
  for (int64_t i = chunk.begin; i < chunk.end; ++i) check += update(g[i], w[i], history[i]...);
  return check == 0;
}

/// Moves the parameters of `runs` in one pass by the rule, which keeps `histories`. All tensors are
/// of the arena's size and type. False when some step was not finite.
template <class Rule>
bool cpu_update(const UpdateRuns& runs, const Rule& rule, const UpdateSettings& settings,
                const UpdateStep& step, const Tensor& gradients, Tensor& parameters,
                std::span<Tensor> histories) {
  return dispatch_float(parameters.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = gradients.host<T>();
    const Writing<T> writing = parameters.writing<T>();
    T* const w = writing;
    return with_histories<Rule>(
        [&](size_t number) { return histories[number].host_mut<T>(); },
        [&](auto*... history) {
          const auto move = settings.regularization == Regularization::l2
                                ? update_chunk<Regularization::l2, T, Rule,
                                               std::remove_pointer_t<decltype(history)>...>
                                : update_chunk<Regularization::l1, T, Rule,
                                               std::remove_pointer_t<decltype(history)>...>;
          std::atomic<bool> finite = true;
          parallel_for(runs.chunks, kUpdateGrain, [&](int64_t begin, int64_t end) {
            for (int64_t chunk = begin; chunk < end; ++chunk) {
              if (!move(runs.chunk(chunk), rule, step, settings.weight_decay, g, w, history...)) {
                finite = false;
              }
            }
          });
          return finite.load();
        });
  });
}

}  // namespace crema
