#include "solver/rate_policy.hpp"

#include <algorithm>
#include <cmath>

#include "proto/solver.pb.h"
#include "solver/settings.hpp"

namespace crema {

RatePolicy::RatePolicy(const SolverParameter& param, const SourceMap& source)
    : base_(param.base_lr()),
      gamma_(param.gamma()),
      power_(param.power()),
      step_(param.stepsize()),
      max_iter_(param.max_iter()),
      steps_(param.stepvalue().begin(), param.stepvalue().end()) {
  const std::string& name = param.lr_policy();
  const std::vector<std::string> names = {"fixed",     "step", "exp",    "inv",
                                          "multistep", "poly", "sigmoid"};
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw Error("lr_policy '", name, "' is unknown", did_you_mean(name, names, "policies are"))
        .at(source.position("lr_policy"));
  kind_ = static_cast<Kind>(found - names.begin());
  auto need = [&](bool given, const char* field) {
    if (!given)
      throw Error("lr_policy '", name, "' needs ", field, "; add it to the solver")
          .at(source.position("lr_policy"));
  };
  if (!param.has_base_lr())
    throw Error("the solver needs base_lr, the learning rate to start with");
  const auto is = [&](auto... kinds) { return ((kind_ == kinds) || ...); };
  if (!is(Kind::fixed, Kind::poly)) need(param.has_gamma(), "gamma");
  if (is(Kind::step, Kind::sigmoid)) need(param.stepsize() > 0, "a positive stepsize");
  if (is(Kind::inv, Kind::poly)) need(param.has_power(), "power");
  if (is(Kind::poly)) need(param.max_iter() > 0, "a positive max_iter");
  if (!is(Kind::multistep)) return;
  need(!steps_.empty(), "at least one stepvalue");
  if (!std::ranges::is_sorted(steps_))
    throw Error("the stepvalue entries must ascend").at(source.position("stepvalue"));
}

double RatePolicy::rate(int iteration) const {
  const double i = iteration;
  switch (kind_) {
    case Kind::fixed:
      return base_;
    case Kind::step:
    case Kind::multistep:
      return base_ * std::pow(gamma_, steps_passed(iteration));
    case Kind::exp:
      return base_ * std::pow(gamma_, i);
    case Kind::inv:
      return base_ * std::pow(1 + gamma_ * i, -power_);
    case Kind::poly:
      // A resumed run may stand past the end; the rate is then 0, not the power of a negative.
      return base_ * std::pow(std::max(0.0, 1 - i / max_iter_), power_);
    case Kind::sigmoid:
      return base_ / (1 + std::exp(-gamma_ * (i - step_)));
  }
  return base_;
}

int RatePolicy::steps_passed(int iteration) const {
  if (kind_ == Kind::step) return iteration / step_;
  if (kind_ != Kind::multistep) return 0;
  return static_cast<int>(std::ranges::upper_bound(steps_, iteration) - steps_.begin());
}

}  // namespace crema
