#include "solver/rate_curve.hpp"

#include <algorithm>
#include <cmath>

namespace crema {

void check(const RateTrial& trial) {
  const auto need = [](bool holds, const auto&... what) {
    if (!holds) throw Error("a range test of rates ", what...);
  };
  need(trial.from > 0 && std::isfinite(trial.from), "begins at a positive rate, not at ",
       trial.from);
  need(trial.to > trial.from && std::isfinite(trial.to), "ends at a rate above the first one, ",
       trial.from, ", not at ", trial.to);
  need(trial.steps >= 2, "has at least 2 steps, not ", trial.steps);
  need(trial.smoothing >= 0 && trial.smoothing < 1, "has a smoothing in [0, 1), not ",
       trial.smoothing);
  need(trial.stop > 1, "stops at more than 1 times the least loss, not at ", trial.stop);
}

double rate_of(const RateTrial& trial, int number) {
  return trial.from * std::pow(trial.to / trial.from, number / (trial.steps - 1.0));
}

bool add_step(const RateTrial& trial, double loss, RateCurve& curve) {
  if (!std::isfinite(loss)) return false;
  const auto number = static_cast<int>(curve.steps.size());
  const double s = trial.smoothing;
  const double before = number == 0 ? 0 : curve.steps.back().smoothed * (1 - std::pow(s, number));
  const double smoothed = (s * before + (1 - s) * loss) / (1 - std::pow(s, number + 1));
  curve.steps.push_back({rate_of(trial, number), loss, smoothed});
  const double least =
      std::ranges::min_element(curve.steps, {}, &RateCurve::Step::smoothed)->smoothed;
  return smoothed <= least + (trial.stop - 1) * std::fabs(least);
}

void suggest(const RateTrial& trial, RateCurve& curve) {
  curve.steepest.reset();
  curve.tenth_of_least.reset();
  const auto& steps = curve.steps;
  const auto first = static_cast<size_t>(std::lround(1 / (1 - trial.smoothing)));
  if (steps.size() <= first + 1) return;
  const auto least = std::ranges::min_element(steps.begin() + static_cast<std::ptrdiff_t>(first),
                                              steps.end(), {}, &RateCurve::Step::smoothed) -
                     steps.begin();
  if (static_cast<size_t>(least) == first) return;
  curve.tenth_of_least = steps[static_cast<size_t>(least)].rate / 10;
  double steepest = 0;
  for (size_t i = first; i <= static_cast<size_t>(least); ++i) {
    const size_t next = std::min(i + 1, steps.size() - 1);
    const double slope =
        (steps[next].smoothed - steps[i - 1].smoothed) / static_cast<double>(next - i + 1);
    if (slope >= steepest) continue;
    steepest = slope;
    curve.steepest = steps[i].rate;
  }
}

}  // namespace crema
