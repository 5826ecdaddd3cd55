// Update rules for one value, and which values an update goes over: written once for the CPU and
// CUDA.
#pragma once

#include <cstdint>

#include "backend/functor.hpp"

namespace crema {

enum class Regularization : uint8_t { l2, l1 };

/// Elements that a thread of the CPU, or a block of a device's, takes at a time.
inline constexpr int64_t kUpdateChunk = 4096;

/// A parameter that learns: where it lies in the arena, and its multipliers.
struct UpdateRun {
  int64_t offset = 0, count = 0;  // in elements
  int64_t first_chunk = 0;        // chunks of the runs before this one
  double rate = 1, decay = 1;

  bool operator==(const UpdateRun&) const = default;
};

CREMA_FUNCTOR int64_t chunks_of(const UpdateRun& run) {
  return (run.count + kUpdateChunk - 1) / kUpdateChunk;
}

struct UpdateChunk {
  const UpdateRun* run;
  int64_t begin, end;  // elements of the arena
};

/// All of them, in order; cut into chunks, of which none spans two runs.
struct UpdateRuns {
  const UpdateRun* runs = nullptr;
  int64_t count = 0;
  int64_t chunks = 0;

  CREMA_FUNCTOR UpdateChunk chunk(int64_t number) const {
    // The chunk is one of runs [low, high).
    int64_t low = 0, high = count;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (runs[middle].first_chunk <= number ? low : high) = middle;
    }
    const UpdateRun& run = runs[low];
    const int64_t begin = run.offset + (number - run.first_chunk) * kUpdateChunk;
    const int64_t left = run.offset + run.count - begin;
    return {&run, begin, begin + (left < kUpdateChunk ? left : kUpdateChunk)};
  }
};

/// What one update by SGD is made with, before the multipliers.
struct SgdStep {
  double gradient_scale = 1, decay = 0, rate = 0, momentum = 0;
};

/// v = momentum * v + rate * (scale * g + decay * w); w -= v. L1 decays by the sign of w instead.
template <class T, Regularization R>
struct SgdMath {
  T scale, decay, rate, momentum;

  CREMA_FUNCTOR SgdMath(const SgdStep& step, const UpdateRun& run)
      : scale(static_cast<T>(step.gradient_scale)),
        decay(static_cast<T>(step.decay * run.decay)),
        rate(static_cast<T>(step.rate * run.rate)),
        momentum(static_cast<T>(step.momentum)) {}

  /// Returns 0 as long as the step is finite; adding that up costs a pass bound by memory nothing.
  [[gnu::always_inline]] CREMA_FUNCTOR T update(T g, T& w, T& v) const {
    const T sign = static_cast<T>((w > 0) - (w < 0));
    const T step = momentum * v + rate * (scale * g + decay * (R == Regularization::l2 ? w : sign));
    v = step;
    w -= step;
    return step - step;
  }
};

}  // namespace crema
