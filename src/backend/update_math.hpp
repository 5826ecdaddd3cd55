// Update rules, and which values an update goes over: written once for the CPU and CUDA.
//
// A rule is a functor. It derives from RuleTraits and hides the members of it that differ. It has a
// name, the number of history arrays that it keeps, a constructor from (settings, iteration), and a
// call for one value,
//
//   T operator()(T gradient, T rate, T&... history) const
//
// which changes the value's histories and returns the step, what is subtracted from the parameter.
// The gradient is scaled, clipped and, unless the rule has decay of its own, regularised before;
// the rate has the parameter's multiplier. Formulas: proto/solver.proto. To add a rule, write its
// functor here and add it to AnyUpdateRule: backend/cpu/update.hpp and backend/cuda/update.cu run
// whatever that names.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/functor.hpp"

namespace crema {

enum class Regularization : uint8_t { l2, l1 };

/// -1, 0 or 1; 0 for NaN.
template <class T>
[[gnu::always_inline]] CREMA_FUNCTOR T sign_of(T value) {
  return static_cast<T>((value > 0) - (value < 0));
}

/// What makes the rate of each parameter another one, by norms over the parameter.
enum class LocalRate : uint8_t {
  none,
  scale,  // rate * eta * |w| / (|g| + decay * |w|)
  trust,  // rate * |w| / |step at rate 1|
  // Of a fork, in place of lr_mult:
  larc_scale,  // the solver's rate * eta * |w| / |g|
  larc_clip,   // min(the solver's rate, eta * |w| / |g|)
  // Of another fork, in place of lr_mult, by the solver's decay without decay_mult:
  automatic,  // the solver's rate * eta * |w| / (|g| + decay * |w|)
};

/// What the solver's settings say of updates; fields as in proto/solver.proto.
struct UpdateSettings {
  double momentum = 0, momentum2 = 0, rms_decay = 0, delta = 0;
  double weight_decay = 0;
  Regularization regularization = Regularization::l2;
  double clip_value = std::numeric_limits<double>::infinity();  // of an element of the gradient
  LocalRate local_rate = LocalRate::none;
  double local_eta = 0;
};

/// What differs between updates, beside the gradients.
struct UpdateStep {
  int iteration = 0;          // counted from 0
  double rate = 0;            // of the solver; times lr_mult of each parameter
  double gradient_scale = 1;  // 1 / iter_size / loss_scale, times what clipping by norm asks for
  std::optional<double> momentum = {}, weight_decay = {};  // instead of those of the settings
  double average_decay = 0;                                // of the average, where there is one
};

// --- The rules -----------------------------------------------------------------------------------

/// Settings that a rule reads, and what they are where the solver does not give them.
struct RuleDefaults {
  double momentum = 0, momentum2 = 0.999, delta = 1e-8;
};

struct RuleTraits {
  static constexpr RuleDefaults kDefaults = {};
  static constexpr bool kReadsMomentum = true, kReadsMomentum2 = false;
  static constexpr bool kReadsRmsDecay = false, kReadsDelta = false;
  /// Weight decay is no part of the gradient, but of the step: rate * decay * w.
  static constexpr bool kOwnDecay = false;
  /// The form of the rule of this name for solvers that say amsgrad.
  static constexpr bool kAmsgrad = false;
  static constexpr LocalRate kLocalRate = LocalRate::none;
};

/// v = momentum * v + rate * g; w -= v.
struct Sgd : RuleTraits {
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

/// As SGD, one step of the velocity ahead.
struct Nesterov : RuleTraits {
  static constexpr std::string_view kName = "Nesterov";
  static constexpr int kHistories = 1;

  double momentum;

  Nesterov(const UpdateSettings& settings, int /*iteration*/) : momentum(settings.momentum) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& velocity) const {
    const T before = velocity, m = static_cast<T>(momentum);
    velocity = m * velocity + rate * gradient;
    return (1 + m) * velocity - m * before;
  }
};

/// As SGD, with rates by the norms of the parameter (You et al. 2017).
struct Lars : Sgd {
  static constexpr std::string_view kName = "LARS";
  static constexpr RuleDefaults kDefaults = {.momentum = 0.9};
  static constexpr LocalRate kLocalRate = LocalRate::scale;

  using Sgd::Sgd;
};

/// Divides by the root of the sum of squares (Duchi et al. 2011).
struct AdaGrad : RuleTraits {
  static constexpr std::string_view kName = "AdaGrad";
  static constexpr int kHistories = 1;
  static constexpr bool kReadsMomentum = false, kReadsDelta = true;

  double delta;

  AdaGrad(const UpdateSettings& settings, int /*iteration*/) : delta(settings.delta) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& squares) const {
    squares += gradient * gradient;
    return rate * gradient / (sqrt(squares) + static_cast<T>(delta));
  }
};

/// Divides by the root of a moving mean of squares.
struct RmsProp : RuleTraits {
  static constexpr std::string_view kName = "RMSProp";
  static constexpr int kHistories = 1;
  static constexpr bool kReadsMomentum = false, kReadsRmsDecay = true, kReadsDelta = true;

  double keep, delta;

  RmsProp(const UpdateSettings& settings, int /*iteration*/)
      : keep(settings.rms_decay), delta(settings.delta) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& squares) const {
    squares = static_cast<T>(keep) * squares + static_cast<T>(1 - keep) * gradient * gradient;
    return rate * gradient / (sqrt(squares) + static_cast<T>(delta));
  }
};

/// Keeps means of the squares of gradients, and of steps (Zeiler 2012).
struct AdaDelta : RuleTraits {
  static constexpr std::string_view kName = "AdaDelta";
  static constexpr int kHistories = 2;
  static constexpr bool kReadsDelta = true;

  double momentum, delta;

  AdaDelta(const UpdateSettings& settings, int /*iteration*/)
      : momentum(settings.momentum), delta(settings.delta) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& squares,
                                                    T& steps) const {
    const T m = static_cast<T>(momentum), rest = static_cast<T>(1 - momentum);
    const T d = static_cast<T>(delta);
    squares = m * squares + rest * gradient * gradient;
    const T step = gradient * sqrt((steps + d) / (squares + d));
    steps = m * steps + rest * step * step;
    return rate * step;
  }
};

/// Moving means of gradients and of their squares (Kingma and Ba 2015).
struct AdamMeans : RuleTraits {
  static constexpr int kHistories = 2;
  static constexpr bool kReadsMomentum2 = true, kReadsDelta = true;

  double momentum, momentum2, delta;

  explicit AdamMeans(const UpdateSettings& settings)
      : momentum(settings.momentum), momentum2(settings.momentum2), delta(settings.delta) {}

 protected:
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR void follow(T gradient, T& mean, T& squares) const {
    mean = static_cast<T>(momentum) * mean + static_cast<T>(1 - momentum) * gradient;
    squares =
        static_cast<T>(momentum2) * squares + static_cast<T>(1 - momentum2) * gradient * gradient;
  }
};

/// As published in Caffe: delta is added before the correction for the first iterations.
struct Adam : AdamMeans {
  static constexpr std::string_view kName = "Adam";

  double correction;

  Adam(const UpdateSettings& settings, int iteration)
      : AdamMeans(settings),
        correction(std::sqrt(1 - std::pow(momentum2, iteration + 1)) /
                   (1 - std::pow(momentum, iteration + 1))) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& mean, T& squares) const {
    follow(gradient, mean, squares);
    return step(rate, mean, squares);
  }

 protected:
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T step(T rate, T mean, T squares) const {
    return rate * static_cast<T>(correction) * mean / (sqrt(squares) + static_cast<T>(delta));
  }
};

/// Adam with decay apart from the gradient (Loshchilov and Hutter 2019).
struct AdamW : AdamMeans {
  static constexpr std::string_view kName = "AdamW";
  static constexpr RuleDefaults kDefaults = {.momentum = 0.9};
  static constexpr bool kOwnDecay = true;

  double of_mean, of_root;

  AdamW(const UpdateSettings& settings, int iteration)
      : AdamMeans(settings),
        of_mean(1 / (1 - std::pow(momentum, iteration + 1))),
        of_root(1 / std::sqrt(1 - std::pow(momentum2, iteration + 1))) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& mean, T& squares) const {
    follow(gradient, mean, squares);
    return step(rate, mean, squares);
  }

 protected:
  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T step(T rate, T mean, T squares) const {
    return rate * static_cast<T>(of_mean) * mean /
           (static_cast<T>(of_root) * sqrt(squares) + static_cast<T>(delta));
  }
};

/// Adam or AdamW whose steps do not grow again where gradients become small (Reddi et al. 2018):
/// they are divided by the greatest mean of squares so far, before its correction, as PyTorch does.
template <class Base>
struct Amsgrad : Base {
  static constexpr int kHistories = 3;
  static constexpr bool kAmsgrad = true;

  using Base::Base;

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& mean, T& squares,
                                                    T& greatest) const {
    this->follow(gradient, mean, squares);
    greatest = squares > greatest ? squares : greatest;
    return this->step(rate, mean, greatest);
  }
};

/// As AdamW, with steps as long as the parameter (You et al. 2020).
struct Lamb : AdamW {
  static constexpr std::string_view kName = "LAMB";
  static constexpr RuleDefaults kDefaults = {.momentum = 0.9, .delta = 1e-6};
  static constexpr LocalRate kLocalRate = LocalRate::trust;

  using AdamW::AdamW;
};

/// Steps of one size, by the sign of a mean (Chen et al. 2023).
struct Lion : RuleTraits {
  static constexpr std::string_view kName = "Lion";
  static constexpr int kHistories = 1;
  static constexpr RuleDefaults kDefaults = {.momentum = 0.9, .momentum2 = 0.99};
  static constexpr bool kReadsMomentum2 = true, kOwnDecay = true;

  double momentum, momentum2;

  Lion(const UpdateSettings& settings, int /*iteration*/)
      : momentum(settings.momentum), momentum2(settings.momentum2) {}

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate, T& mean) const {
    const T blend = static_cast<T>(momentum) * mean + static_cast<T>(1 - momentum) * gradient;
    mean = static_cast<T>(momentum2) * mean + static_cast<T>(1 - momentum2) * gradient;
    return rate * sign_of(blend);
  }
};

/// One of all rules.
using AnyUpdateRule = std::variant<Sgd, Nesterov, AdaGrad, RmsProp, AdaDelta, Adam, AdamW, Lamb,
                                   Lars, Lion, Amsgrad<Adam>, Amsgrad<AdamW>>;

/// No rule of a solver: its step is the gradient, so that its norm can be measured as one.
struct GradientAsStep : RuleTraits {
  static constexpr int kHistories = 0;
  static constexpr bool kOwnDecay = true;  // the drivers leave it out of a norm of gradients

  template <class T>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T gradient, T rate) const {
    return rate * gradient;
  }
};

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
  T scale, clip, decay, rate;

  /// `at_rate`: with the multiplier of the run.
  CREMA_FUNCTOR ValueUpdate(const Rule& by, const UpdateSettings& settings, const UpdateStep& step,
                            const UpdateRun& run, double at_rate)
      : rule(by),
        scale(static_cast<T>(step.gradient_scale)),
        clip(static_cast<T>(settings.clip_value)),
        decay(static_cast<T>(settings.weight_decay * run.decay)),
        rate(static_cast<T>(at_rate)) {}

  template <class... History>
  [[gnu::always_inline]] CREMA_FUNCTOR T step(T g, T w, History&... history) const {
    T gradient = scale * g;
    gradient = gradient > clip ? clip : gradient;
    gradient = gradient < -clip ? -clip : gradient;
    const T penalty = decay * (R == Regularization::l2 ? w : sign_of(w));
    if constexpr (Rule::kOwnDecay) return rule(gradient, rate, history...) + rate * penalty;
    return rule(gradient + penalty, rate, history...);
  }

  /// Returns 0 as long as gradient and step are finite. Adding that up is free in a pass bound by
  /// memory.
  template <class... History>
  [[gnu::always_inline]] CREMA_FUNCTOR T operator()(T g, T& w, History&... history) const {
    const T by = step(g, w, history...);
    w -= by;
    return (by - by) + (g - g);
  }
};

/// Sums of squares of values and of steps.
struct Squares {
  double values = 0, steps = 0;
};

/// The step that the histories, which stay as they are, would give.
template <class Update, class T, class... History>
[[gnu::always_inline]] CREMA_FUNCTOR T step_of(const Update& update, T g, T w, History... history) {
  return update.step(g, w, history...);
}

/// The rate of a run, with its multiplier. `squares`: of all its values, and of the gradients or of
/// the steps at rate 1; read if there are local rates.
CREMA_FUNCTOR double rate_of(const UpdateSettings& settings, double rate, const UpdateRun& run,
                             const Squares& squares) {
  const double of_run = rate * run.rate;
  if (settings.local_rate == LocalRate::none) return of_run;
  const double values = sqrt(squares.values), steps = sqrt(squares.steps);
  // Where NaN is in them, the update has to see it.
  const bool none = values == 0 || steps == 0;
  if (settings.local_rate == LocalRate::trust) return none ? of_run : of_run * (values / steps);
  if (settings.local_rate == LocalRate::scale) {
    const double decay = settings.weight_decay * run.decay;
    return none ? of_run : of_run * (settings.local_eta * values / (steps + decay * values));
  }
  if (settings.local_rate == LocalRate::automatic) {
    const double decay = settings.weight_decay;
    return none ? rate : rate * (settings.local_eta * values / (steps + decay * values));
  }
  const double local = none ? 1 : settings.local_eta * values / steps;
  if (settings.local_rate == LocalRate::larc_scale) return rate * local;
  return rate < local ? rate : local;
}

/// body(regularization as a type) for the one of the settings.
template <class Body>
decltype(auto) with_regularization(Regularization regularization, const Body& body) {
  using L1 = std::integral_constant<Regularization, Regularization::l1>;
  using L2 = std::integral_constant<Regularization, Regularization::l2>;
  return regularization == Regularization::l2 ? body(L2()) : body(L1());
}

/// body(array_of(0), array_of(1), ...) for each history array of the rule.
template <class Rule, class ArrayOf, class Body>
decltype(auto) with_histories(const ArrayOf& array_of, const Body& body) {
  return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return body(array_of(I)...);
  }
  (std::make_index_sequence<static_cast<size_t>(Rule::kHistories)>());
}

}  // namespace crema
