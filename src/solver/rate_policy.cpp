#include "solver/rate_policy.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "proto/solver.pb.h"
#include "solver/settings.hpp"

namespace crema {
namespace {

/// The index of the setting's value among the names; Error for an unknown one.
size_t index_of(const std::string& name, const std::vector<std::string>& names, const char* field,
                const SourceMap& source) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw Error(field, " '", name, "' is unknown", did_you_mean(name, names, "policies are"))
        .at(source.position(field));
  return static_cast<size_t>(found - names.begin());
}

double interpolate(double from, double to, double part) { return from + (to - from) * part; }

/// From 0 to 1 as half a cosine.
double half_cosine(double part) { return (1 - std::cos(std::numbers::pi * part)) / 2; }

}  // namespace

RatePolicy::RatePolicy(const SolverParameter& param, double momentum, const SourceMap& source)
    : name_(param.lr_policy()),
      base_(param.base_lr()),
      gamma_(param.gamma()),
      power_(param.power()),
      min_(param.min_lr()),
      step_(param.stepsize()),
      max_iter_(param.max_iter()),
      warmup_(param.warmup_iter()),
      warmup_start_(param.warmup_start_lr()),
      rise_(param.onecycle_rise()),
      div_(param.onecycle_div()),
      final_div_(param.onecycle_final_div()),
      three_phase_(param.onecycle_three_phase()),
      straight_(param.onecycle_anneal() == SolverParameter::LINEAR),
      restart_(param.restart_iter()),
      restart_mult_(param.restart_mult()) {
  kind_ = static_cast<Kind>(
      index_of(param.lr_policy(),
               {"fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid", "linear", "cosine",
                "onecycle", "plateau", "multifixed", "cosine_restarts"},
               "lr_policy", source));
  const auto& steps = kind_ == Kind::plateau      ? param.plateau_winsize()
                      : kind_ == Kind::multifixed ? param.stageiter()
                                                  : param.stepvalue();
  steps_.assign(steps.begin(), steps.end());
  stages_.assign(param.stagelr().begin(), param.stagelr().end());
  if (param.rampup_interval() > 0) {
    warmup_ = param.rampup_interval();
    warmup_start_ = param.rampup_lr();
    warmup_power_ = 2;
  }
  check(param, source);
  check_warmup(param, source);
  take_courses(param, momentum, source);
  check_rates(source);
}

void RatePolicy::check_rates(const SourceMap& source) const {
  if (kind_ == Kind::plateau && gamma_ < 0)
    throw Error("lr_policy 'plateau' with gamma ", gamma_,
                " gives negative rates; give a gamma in (0, 1)")
        .at(source.position("gamma"));
  std::vector<double> iterations = {0, 1, static_cast<double>(step_), max_iter_ - 1.0};
  if (!steps_.empty()) iterations.push_back(steps_.front());
  if (kind_ == Kind::inv && gamma_ < 0) iterations.push_back(std::ceil(-1 / gamma_));
  std::ranges::sort(iterations);
  for (const double i : iterations) {
    const double end = max_iter_ > 0 ? max_iter_ : 1e9;
    try {
      if (i >= 0 && i < end) rate(static_cast<int>(i));
    } catch (Error& error) {
      throw error.at(source.position("gamma"));
    }
  }
}

void RatePolicy::check(const SolverParameter& param, const SourceMap& source) const {
  const auto refuse = [&](const char* field, auto... what) {
    throw Error("lr_policy '", param.lr_policy(), "' ", what...).at(source.position(field));
  };
  const auto need = [&](bool given, const char* field) {
    if (!given) refuse("lr_policy", "needs ", field, "; add it to the solver");
  };
  const auto is = [&](auto... kinds) { return ((kind_ == kinds) || ...); };
  if (!is(Kind::multifixed) && !param.has_base_lr())
    throw Error("the solver needs base_lr, the learning rate to start with");
  if (is(Kind::step, Kind::exp, Kind::inv, Kind::multistep, Kind::sigmoid, Kind::plateau))
    need(param.has_gamma(), "gamma");
  if (is(Kind::step, Kind::sigmoid)) need(param.stepsize() > 0, "a positive stepsize");
  if (is(Kind::inv, Kind::poly)) need(param.has_power(), "power");
  if (is(Kind::poly, Kind::linear, Kind::cosine, Kind::onecycle))
    need(param.has_max_iter() && param.max_iter() >= 0, "max_iter");  // 0: tests alone
  if (is(Kind::multistep)) {
    need(!steps_.empty(), "at least one stepvalue");
    if (steps_.front() < 0)
      refuse("stepvalue", "has stepvalue ", steps_.front(), "; give an iteration");
  }
  if (is(Kind::plateau)) {
    need(!steps_.empty(), "at least one plateau_winsize");
    for (const int window : steps_) {
      if (window <= 0) refuse("plateau_winsize", "needs a positive plateau_winsize, not ", window);
    }
  }
  if (is(Kind::multifixed)) {
    need(!stages_.empty(), "at least one stagelr");
    if (stages_.size() != steps_.size())
      refuse("stageiter", "has ", stages_.size(), " stagelr and ", steps_.size(),
             " stageiter; give one of each for a stage");
    for (const double rate : stages_) {
      if (rate < 0) refuse("stagelr", "has stagelr ", rate, "; a rate must not be negative");
    }
  }
  if (is(Kind::multistep, Kind::multifixed) && !std::ranges::is_sorted(steps_)) {
    const char* const field = is(Kind::multistep) ? "stepvalue" : "stageiter";
    throw Error("the ", field, " entries must ascend").at(source.position(field));
  }
  check_cycles(param, source);
  if (min_ < 0) throw Error("min_lr ", min_, " must not be negative").at(source.position("min_lr"));
  if (!is(Kind::multifixed) && min_ > base_)
    throw Error("min_lr ", min_, " is larger than base_lr ", base_).at(source.position("min_lr"));
}

void RatePolicy::check_cycles(const SolverParameter& param, const SourceMap& source) const {
  const auto need = [&](bool holds, const char* field, auto... what) {
    if (!holds)
      throw Error("lr_policy '", param.lr_policy(), "' needs ", what...).at(source.position(field));
  };
  if (kind_ == Kind::cosine_restarts) {
    need(param.has_restart_iter(), "lr_policy",
         "restart_iter, the iterations of the first period; add it to the solver");
    need(restart_ > 0, "restart_iter", "a positive restart_iter, not ", restart_);
    need(restart_mult_ >= 1, "restart_mult", "a restart_mult of at least 1, not ", restart_mult_);
  }
  if (kind_ != Kind::onecycle) return;
  need(rise_ > 0 && rise_ < 1, "onecycle_rise", "onecycle_rise in (0, 1), not ", rise_);
  // The second phase is as long as the first one.
  need(!three_phase_ || rise_ <= 0.5, "onecycle_rise",
       "onecycle_rise in (0, 0.5] with onecycle_three_phase, not ", rise_);
  need(div_ > 0, "onecycle_div", "a positive onecycle_div, not ", div_);
  need(final_div_ > 0, "onecycle_final_div", "a positive onecycle_final_div, not ", final_div_);
}

void RatePolicy::check_warmup(const SolverParameter& param, const SourceMap& source) const {
  const char* const field = warmup_power_ == 1 ? "warmup_iter" : "rampup_interval";
  const auto refuse = [&](auto... what) { throw Error(what...).at(source.position(field)); };
  for (const auto& [name, value] : {std::pair{"warmup_iter", param.warmup_iter()},
                                    std::pair{"rampup_interval", param.rampup_interval()}}) {
    if (value < 0) throw Error(name, " ", value, " must not be negative").at(source.position(name));
  }
  if (param.warmup_iter() > 0 && param.rampup_interval() > 0)
    refuse("the solver has both warmup_iter and rampup_interval; keep one of them");
  if (warmup_ == 0) return;
  if (warmup_start_ < 0)
    refuse("the warm-up starts at the rate ", warmup_start_, "; it must not be negative");
  if (kind_ == Kind::onecycle)
    refuse("lr_policy 'onecycle' has a warm-up of its own; remove ", field,
           ", and set onecycle_rise and onecycle_div");
  if (!param.has_base_lr())
    refuse("a warm-up needs base_lr, the rate at its end; add it to the solver");
  if (max_iter_ > 0 && warmup_ >= max_iter_)
    refuse(field, " ", warmup_, " must be less than max_iter ", max_iter_);
}

void RatePolicy::take_courses(const SolverParameter& param, double momentum,
                              const SourceMap& source) {
  momentum_course_ = static_cast<Course>(index_of(
      param.momentum_policy(), {"fixed", "poly", "opt", "onecycle"}, "momentum_policy", source));
  decay_course_ = static_cast<Course>(
      index_of(param.weight_decay_policy(), {"fixed", "poly"}, "weight_decay_policy", source));
  momentum_ = momentum;
  most_momentum_ = param.max_momentum();
  // At rate 0, as at the begin of a warm-up, the formula gives 1, and Adam then 0 / 0.
  if (momentum_course_ == Course::opt && !param.has_max_momentum()) most_momentum_ = 0.9999;
  momentum_power_ = param.momentum_power();
  decay_ = param.weight_decay();
  if (decay_course_ == Course::poly && param.has_max_weight_decay()) {
    most_decay_ = param.max_weight_decay();
  } else {
    most_decay_ = decay_;
    decay_ = 0;
  }
  decay_power_ = param.weight_decay_power();
  const auto need = [&](bool holds, const char* field, auto... why) {
    if (!holds) throw Error(field, " ", why...).at(source.position(field));
  };
  if (momentum_course_ == Course::poly)
    need(max_iter_ > 0, "momentum_policy", "'poly' needs a positive max_iter");
  if (momentum_course_ == Course::onecycle)
    need(kind_ == Kind::onecycle, "momentum_policy", "'onecycle' needs lr_policy 'onecycle'");
  if (momentum_course_ != Course::fixed)
    need(most_momentum_ >= 0 && most_momentum_ < 1, "max_momentum", most_momentum_,
         " must lie in [0, 1)");
  if (momentum_course_ == Course::poly)
    need(momentum_power_ > 0, "momentum_power", momentum_power_, " must be positive");
  if (decay_course_ == Course::fixed) return;
  need(max_iter_ > 0, "weight_decay_policy", "'poly' needs a positive max_iter");
  need(most_decay_ >= 0, "max_weight_decay", most_decay_, " must not be negative");
  need(decay_power_ > 0, "weight_decay_power", decay_power_, " must be positive");
}

double RatePolicy::rate(int iteration) const {
  if (iteration >= warmup_) {
    const double value = policy_rate(iteration);
    if (!(value >= 0 && std::isfinite(value)))
      throw Error("lr_policy '", name_, "' gives the rate ", value, " at iteration ", iteration,
                  "; correct gamma ", gamma_, kind_ == Kind::inv ? text(" or power ", power_) : "");
    return std::max(min_, value);
  }
  const double part = static_cast<double>(iteration) / warmup_;
  return interpolate(warmup_start_, base_, std::pow(part, warmup_power_));
}

double RatePolicy::policy_rate(int iteration) const {
  const double i = iteration;
  switch (kind_) {
    case Kind::fixed:
      return base_;
    case Kind::step:
    case Kind::multistep:
    case Kind::plateau:
      return base_ * std::pow(gamma_, steps_passed(iteration));
    case Kind::exp:
      return base_ * std::pow(gamma_, i);
    case Kind::inv:
      // Behind the pole, even powers would give rates that fall again.
      return 1 + gamma_ * i > 0 ? base_ * std::pow(1 + gamma_ * i, -power_) : NAN;
    case Kind::poly:
      // A resumed run may stand past the end; the rate is then 0, not the power of a negative.
      return interpolate(min_, base_, std::pow(std::max(0.0, 1 - i / max_iter_), power_));
    case Kind::sigmoid:
      return base_ / (1 + std::exp(-gamma_ * (i - step_)));
    case Kind::linear:
      return interpolate(base_, min_, progress(iteration));
    case Kind::cosine:
      return interpolate(base_, min_, half_cosine(progress(iteration)));
    case Kind::cosine_restarts:
      return interpolate(base_, min_, half_cosine(period_progress(iteration)));
    case Kind::onecycle:
      return cycle(iteration, base_ / div_, base_, base_ / div_ / final_div_);
    case Kind::multifixed: {
      const auto stage = std::ranges::lower_bound(steps_, iteration) - steps_.begin();
      return stages_[std::min(static_cast<size_t>(stage), stages_.size() - 1)];
    }
  }
  return base_;
}

double RatePolicy::progress(int iteration) const {
  if (max_iter_ <= warmup_) return 1;  // max_iter 0: tests alone
  const double part = static_cast<double>(iteration - warmup_) / (max_iter_ - warmup_);
  return std::clamp(part, 0.0, 1.0);
}

double RatePolicy::period_progress(int iteration) const {
  int64_t at = iteration - warmup_, length = restart_;
  if (restart_mult_ == 1) at %= length;
  while (at >= length) {
    at -= length;
    length *= restart_mult_;
  }
  return static_cast<double>(at) / static_cast<double>(length);
}

double RatePolicy::cycle(int iteration, double start, double top, double end) const {
  const auto arm = [&](double from, double to, double part) {
    return interpolate(from, to, straight_ ? part : half_cosine(part));
  };
  // The first iteration has the rate `start`, the last one `end`.
  const double last = max_iter_ - 1, turn = rise_ * max_iter_ - 1;
  if (iteration <= turn) return arm(start, top, turn > 0 ? iteration / turn : 1);
  if (three_phase_ && iteration <= 2 * turn) return arm(top, start, (iteration - turn) / turn);
  const double fall = three_phase_ ? 2 * turn : turn;
  const double part = last > fall ? std::clamp((iteration - fall) / (last - fall), 0.0, 1.0) : 1;
  return arm(three_phase_ ? start : top, end, part);
}

int RatePolicy::steps_passed(int iteration) const {
  if (kind_ == Kind::step) return iteration / step_;
  if (kind_ == Kind::plateau) return plateau_.steps;
  if (kind_ != Kind::multistep) return 0;
  return static_cast<int>(std::ranges::upper_bound(steps_, iteration) - steps_.begin());
}

std::optional<double> RatePolicy::momentum(int iteration) const {
  switch (momentum_course_) {
    case Course::fixed:
      return std::nullopt;
    case Course::poly: {
      const double part = std::min(1.0, static_cast<double>(iteration) / max_iter_);
      return interpolate(momentum_, most_momentum_, std::pow(part, momentum_power_));
    }
    case Course::opt: {
      const double root = 1 - std::sqrt(rate(iteration)) / 2;
      return std::min(most_momentum_, root * root);
    }
    case Course::onecycle:
      return cycle(iteration, most_momentum_, momentum_, most_momentum_);
  }
  return std::nullopt;
}

std::optional<double> RatePolicy::weight_decay(int iteration) const {
  if (decay_course_ == Course::fixed) return std::nullopt;
  const double part = std::min(1.0, static_cast<double>(iteration) / max_iter_);
  return interpolate(decay_, most_decay_, std::pow(part, decay_power_));
}

bool RatePolicy::observe(int iteration, double loss) {
  if (kind_ != Kind::plateau) return false;
  // In f32, as a solverstate has it: a resumed run compares the same numbers.
  const auto value = static_cast<float>(loss);
  if (value < plateau_.minimum) {
    plateau_.minimum = value;
    plateau_.last_event = iteration;
  }
  const auto step = static_cast<size_t>(plateau_.steps);
  if (step >= steps_.size() || iteration < int64_t{plateau_.last_event} + steps_[step])
    return false;
  ++plateau_.steps;
  plateau_.last_event = iteration;
  return true;
}

}  // namespace crema
