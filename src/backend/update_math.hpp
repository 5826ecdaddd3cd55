// Update rules, and which values an update goes over: written once for the CPU and CUDA.
//
// A rule is a functor. It has a name, the number of history arrays that it keeps, a constructor
// from (settings, iteration), and a call for one value,
//
//   T operator()(T gradient, T rate, T&... history) const
//
// which changes the value's histories and returns the step, what is subtracted from the parameter.
// The gradient is scaled and regularised before, the rate has the parameter's multiplier. To add a
// rule, write its functor here and add it to AnyUpdateRule: backend/cpu/update.hpp and
// backend/cuda/update.cu run whatever that names.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

#include "core/functor.hpp"

namespace crema {

enum class Regularization : uint8_t { l2, l1 };

/// What the solver's settings say of updates; fields as in proto/solver.proto.
struct UpdateSettings {
  double momentum = 0, momentum2 = 0, rms_decay = 0, delta = 0;
  double weight_decay = 0;
  Regularization regularization = Regularization::l2;
};

/// What differs between updates, beside the gradients.
struct UpdateStep {
  int iteration = 0;          // counted from 0
  double rate = 0;            // of the solver; times lr_mult of each parameter
  double gradient_scale = 1;  // 1 / iter_size, times what clipping asks for
};

// --- The rules -----------------------------------------------------------------------------------

/// v = momentum * v + rate * g; w -= v.
struct Sgd {
  static constexpr std::string_view kName = "SGD";
  static constexpr int kHistories = 1;

  double momentum;

  Sgd(const UpdateSettings& settings, int /*iteration*/) : momentum(settings.momentum) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& velocity) const {
    velocity = static_cast<T>(momentum) * velocity + rate * gradient;
    return velocity;
  }
};

/// One of all rules.
using AnyUpdateRule = std::variant<Sgd>;

// --- What an update goes over --------------------------------------------------------------------

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

// --- What the drivers share ----------------------------------------------------------------------

/// The update of one value of a run: what all rules have in common, around the rule. Weights decay
/// by their value (L2) or by its sign (L1).
template <class T, Regularization R, class Rule>
struct ValueUpdate {
  Rule rule;
  T scale, decay, rate;

  CREMA_FUNCTOR ValueUpdate(const Rule& by, const UpdateStep& step, double weight_decay,
                            const UpdateRun& run)
      : rule(by),
        scale(static_cast<T>(step.gradient_scale)),
        decay(static_cast<T>(weight_decay * run.decay)),
        rate(static_cast<T>(step.rate * run.rate)) {}

  /// Returns 0 as long as the step is finite. Adding that up is free in a pass bound by memory.
  template <class... History>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T g, T& w, History&... history) const {
    const T sign = static_cast<T>((w > 0) - (w < 0));
    const T step = rule(scale * g + decay * (R == Regularization::l2 ? w : sign), rate, history...);
    w -= step;
    return step - step;
  }
};

/// body(array_of(0), array_of(1), ...) for each history array of the rule.
template <class Rule, class ArrayOf, class Body>
decltype(auto) with_histories(const ArrayOf& array_of, const Body& body) {
  return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return body(array_of(I)...);
  }
  (std::make_index_sequence<static_cast<size_t>(Rule::kHistories)>());
}

}  // namespace crema
