// Learning-rate policies, the published ones and others, and the policies of momentum and weight
// decay.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/source_map.hpp"

namespace crema {

class SolverParameter;

/// The learning rate as a function of the iteration, and for "plateau" of the losses before it. The
/// formulas stand in proto/solver.proto.
class RatePolicy {
 public:
  /// Error for an unknown policy (with the nearest name), for one that lacks a setting it needs,
  /// and for settings that soon give a rate that is negative or not finite. `momentum`: of the
  /// update rule, by the settings or its own.
  RatePolicy(const SolverParameter& param, double momentum, const SourceMap& source = {});

  /// Error where the policy gives a rate that is negative or not finite.
  double rate(int iteration) const;
  /// How often "step", "multistep" or "plateau" has lowered the rate by then; 0 for the others.
  int steps_passed(int iteration) const;

  /// Momentum and weight decay at the iteration; nothing where they are those of the settings.
  std::optional<double> momentum(int iteration) const;
  std::optional<double> weight_decay(int iteration) const;

  /// What "plateau" remembers, as in a solverstate.
  struct Plateau {
    int steps = 0;          // how often the rate was lowered
    float minimum = 1e38F;  // of the losses
    int last_event = 0;     // iteration of the last minimum, or of the last lowering
  };
  /// Tells the policy the loss of the iteration, before rate(iteration) is taken. True when
  /// "plateau" lowers the rate.
  bool observe(int iteration, double loss);
  /// Whether the rate of an iteration depends on its loss.
  bool reads_losses() const { return kind_ == Kind::plateau; }
  const Plateau& plateau() const { return plateau_; }
  void set_plateau(const Plateau& plateau) { plateau_ = plateau; }

 private:
  enum class Kind {
    fixed,
    step,
    exp,
    inv,
    multistep,
    poly,
    sigmoid,
    linear,
    cosine,
    onecycle,
    plateau,
    multifixed,
    cosine_restarts
  };
  enum class Course { fixed, poly, opt, onecycle };  // of momentum and weight decay

  /// Error unless the policy has what it needs.
  void check(const SolverParameter& param, const SourceMap& source) const;
  void check_cycles(const SolverParameter& param, const SourceMap& source) const;
  void check_warmup(const SolverParameter& param, const SourceMap& source) const;
  void take_courses(const SolverParameter& param, double momentum, const SourceMap& source);
  /// Error if the rate is none at an iteration where settings with a wrong sign show.
  void check_rates(const SourceMap& source) const;
  /// Of the policy, behind the warm-up and without the lower limit.
  double policy_rate(int iteration) const;
  /// The part of the iterations behind the warm-up that is done, in [0, 1].
  double progress(int iteration) const;
  /// The part of the present period of "cosine_restarts" that is done, in [0, 1).
  double period_progress(int iteration) const;
  /// Along "onecycle": from `start` to `top`, with three phases back to `start`, and on to `end`.
  double cycle(int iteration, double start, double top, double end) const;

  Kind kind_ = Kind::fixed;
  std::string name_;  // lr_policy
  double base_ = 0, gamma_ = 0, power_ = 0, min_ = 0;
  int step_ = 0, max_iter_ = 0;
  std::vector<int> steps_;                     // stepvalue, plateau_winsize or stageiter
  std::vector<double> stages_;                 // rates of multifixed
  int warmup_ = 0;                             // iterations
  double warmup_start_ = 0;                    // rate
  double warmup_power_ = 1;                    // 1: linear, 2: as rampup_interval
  double rise_ = 0, div_ = 0, final_div_ = 0;  // of onecycle
  bool three_phase_ = false, straight_ = false;
  int restart_ = 0, restart_mult_ = 1;  // of cosine_restarts
  Course momentum_course_ = Course::fixed, decay_course_ = Course::fixed;
  double momentum_ = 0, most_momentum_ = 0, momentum_power_ = 1;
  double decay_ = 0, most_decay_ = 0, decay_power_ = 1;
  Plateau plateau_;
};

}  // namespace crema
