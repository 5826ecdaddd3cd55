#include "layer_support/tuning.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/tuner.hpp"

namespace crema {
namespace {

/// Problems whose sizes differ by at most this factor take the same candidate.
constexpr double kSimilar = 1.25;

/// The product of the extents at the end of a problem's name: 6 for "2x3".
double product_of(const std::string& extents) {
  double product = 1;
  for (const char* at = extents.c_str(); *at != '\0';) {
    char* end = nullptr;
    product *= static_cast<double>(std::strtoll(at, &end, 10));
    at = *end == 'x' ? end + 1 : "";
  }
  return product;
}

std::optional<size_t> index_of(std::span<const TunedCandidate> candidates, const std::string& key) {
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const TunedCandidate& c) { return c.key == key; });
  if (found == candidates.end()) return std::nullopt;
  return static_cast<size_t>(found - candidates.begin());
}

/// The fastest candidate of the nearest measured problem. None if there is no similar problem, or
/// if this problem was measured.
std::optional<TunedChoice> similar(const Tuner& tuner, const TunedProblem& problem,
                                   std::span<const TunedCandidate> candidates) {
  const std::string name = problem.name();
  const auto size = static_cast<double>(problem.extents.count());
  std::optional<TunedChoice> nearest;
  double distance = kSimilar;
  for (const Tuner::Time& time : tuner.measured(problem.family)) {
    const auto candidate = index_of(candidates, time.candidate);
    if (!candidate) continue;
    if (time.problem == name) return std::nullopt;
    const double ratio = size / product_of(time.problem.substr(problem.family.size()));
    const double apart = std::max(ratio, 1 / ratio), seconds = time.seconds * ratio;
    if (apart > distance || (apart == distance && nearest && seconds >= nearest->seconds)) continue;
    nearest = {*candidate, seconds};
    distance = apart;
  }
  return nearest;
}

}  // namespace

TunedChoice choose_candidate(Context& context, const TunedProblem& problem,
                             std::span<const TunedCandidate> candidates, double time_limit) {
  Tuner& tuner = context.tuner();
  const std::string name = problem.name();
  const auto seconds = [&](size_t candidate, double limit) {
    if (!context.tune()) return 0.0;
    const TunedCandidate& measured = candidates[candidate];
    if (measured.clock) return tuner.timed(name, measured.key, measured.clock);
    return tuner.seconds(name, candidates[candidate].key, candidates[candidate].run, limit);
  };
  const auto like = context.tune() ? similar(tuner, problem, candidates) : std::nullopt;
  std::string key;
  if (tuner.chosen(name, key)) {
    if (const auto chosen = index_of(candidates, key)) {
      return {*chosen, like ? like->seconds : seconds(*chosen, time_limit)};
    }
  }
  if (like) return *like;
  TunedChoice best{0, seconds(0, time_limit)};
  for (size_t i = 1; i < candidates.size() && context.tune(); ++i) {
    const double taken = seconds(i, std::min(time_limit, best.seconds));
    if (taken < best.seconds) best = {i, taken};
  }
  return best;
}

}  // namespace crema
