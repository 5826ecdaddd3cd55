#include "layer_support/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "core/tuner.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// Problems whose sizes differ by at most this factor take the same candidate.
constexpr double kSimilar = 1.25;
/// Candidates within this factor of the fastest one are measured again while their times are open.
/// Those that were measured under load may be that much faster than their times say.
constexpr double kContends = 1.5, kContendsUnderLoad = 2.5;
/// What measuring a candidate again takes, in runs.
constexpr double kRunsAgain = 3;
/// A kernel in a net, whose memory is not in caches, is slower than alone by about this factor.
constexpr double kSlowerInNet = 1.5, kClearlyFaster = 1.2;

bool measures(const Context& context) { return context.tune() && context.tuner().measures(); }

using Times = std::map<std::string, TunedTime>;

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
  const auto found = std::ranges::find(candidates, key, &TunedCandidate::key);
  if (found == candidates.end()) return std::nullopt;
  return static_cast<size_t>(found - candidates.begin());
}

/// The fastest candidate of the nearest measured problem. None if there is no similar problem, or
/// if this problem was measured.
std::optional<TunedChoice> similar(const Tuner& tuner, const TunedTask& task) {
  const std::string name = task.problem.name();
  const auto size = static_cast<double>(task.problem.extents.count());
  std::optional<TunedChoice> nearest;
  double distance = kSimilar;
  for (const Tuner::Time& time : tuner.all(task.problem.family)) {
    const auto candidate = index_of(task.candidates, time.candidate);
    if (!candidate) continue;
    if (time.problem == name) return std::nullopt;
    const double ratio = size / product_of(time.problem.substr(task.problem.family.size()));
    const double apart = std::max(ratio, 1 / ratio), seconds = time.seconds * ratio;
    if (apart > distance || (apart == distance && nearest && seconds >= nearest->seconds)) continue;
    nearest = {*candidate, seconds, DecidedBy::times};
    distance = apart;
  }
  return nearest;
}

/// Choices for tasks that compete.
class Decision {
 public:
  Decision(Context& context, std::span<const TunedTask> tasks)
      : context_(context), tuner_(context.tuner()), tasks_(tasks), choices_(tasks.size()) {}

  std::vector<TunedChoice> take() {
    std::vector<size_t> open;
    for (size_t t = 0; t < tasks_.size(); ++t) {
      if (!decide_without_times(t)) open.push_back(t);
    }
    if (measures(context_)) {
      measure(open);
      measure_again(open);
    }
    for (const size_t t : open) choices_[t] = fastest(t);
    return std::move(choices_);
  }

 private:
  Expectation predict(size_t t, const TunedCandidate& candidate) const {
    const TunedProblem& problem = tasks_[t].problem;
    return tuner_.predict(problem.name(), problem.workload, candidate.key, candidate.usual);
  }

  /// What the choice of the run takes: by its time, that of a similar problem, or the model.
  double seconds_of(size_t t, size_t candidate, const std::optional<TunedChoice>& like) {
    const TunedTask& task = tasks_[t];
    const TunedCandidate& taken = task.candidates[candidate];
    const Times times = tuner_.times(task.problem.name());
    if (const auto found = times.find(taken.key); found != times.end())
      return found->second.seconds;
    if (like) return like->seconds;
    if (const Expectation expected = predict(t, taken); expected.seconds > 0)
      return expected.seconds;
    if (!measures(context_)) return 0;
    if (taken.clock) return tuner_.timed(task.problem.name(), taken.key, taken.clock);
    Entrant entrant{.prepare = &taken.prepare};
    race(tuner_.senses(), context_.threads(), {&entrant, 1});
    keep(t, taken, entrant.time);
    return entrant.time.seconds;
  }

  bool decide_without_times(size_t t) {
    const TunedTask& task = tasks_[t];
    const auto like = context_.tune() ? similar(tuner_, task) : std::nullopt;
    std::string key;
    if (tuner_.chosen(task.problem.name(), key)) {
      if (const auto chosen = index_of(task.candidates, key)) {
        choices_[t] = {*chosen, context_.tune() ? seconds_of(t, *chosen, like) : 0, DecidedBy::run};
        return true;
      }
    }
    if (like) choices_[t] = *like;
    return like || !context_.tune();
  }

  void keep(size_t t, const TunedCandidate& candidate, const TunedTime& time) {
    const TunedProblem& problem = tasks_[t].problem;
    tuner_.keep(problem.name(), problem.workload, candidate.key, candidate.usual, time);
  }

  /// Measures the candidates whose times are unknown.
  void measure(const std::vector<size_t>& open) {
    std::vector<Entrant> entrants;
    std::vector<std::pair<size_t, const TunedCandidate*>> whose;
    bool any = false;
    for (const size_t t : open) {
      const Times times = tuner_.times(tasks_[t].problem.name());
      for (const TunedCandidate& candidate : tasks_[t].candidates) {
        if (candidate.clock) {
          tuner_.timed(tasks_[t].problem.name(), candidate.key, candidate.clock);
          continue;
        }
        const auto found = times.find(candidate.key);
        const bool known = found != times.end();
        any = any || !known;
        entrants.push_back({.prepare = &candidate.prepare,
                            .task = t,
                            .prediction = predict(t, candidate),
                            .known = known ? found->second.seconds : 0});
        whose.emplace_back(t, &candidate);
      }
    }
    if (!any) return;
    race(tuner_.senses(), context_.threads(), entrants);
    for (size_t i = 0; i < entrants.size(); ++i) {
      if (entrants[i].known > 0) continue;
      keep(whose[i].first, *whose[i].second, entrants[i].time);
      measured_.push_back(whose[i].first);
    }
  }

  /// Measures contenders again whose times are open, as far as this run may.
  void measure_again(const std::vector<size_t>& open) {
    for (const size_t t : open) {
      const TunedTask& task = tasks_[t];
      const Times times = tuner_.times(task.problem.name());
      double best = std::numeric_limits<double>::infinity(), cost = 0;
      bool any = false;
      for (const auto& [key, time] : times) best = std::min(best, time.seconds);
      std::vector<Entrant> entrants;
      std::vector<const TunedCandidate*> whose;
      for (const TunedCandidate& candidate : task.candidates) {
        const auto found = times.find(candidate.key);
        if (candidate.clock || found == times.end()) continue;
        const TunedTime& time = found->second;
        const double factor = time.state == TimeState::provisional ? kContendsUnderLoad : kContends;
        if (time.state == TimeState::pruned || time.seconds > factor * best) continue;
        any = any || time.is_open();
        cost += kRunsAgain * time.seconds;
        entrants.push_back({.prepare = &candidate.prepare});
        whose.push_back(&candidate);
      }
      // What this very call measured waits for a later run, and so for another load.
      if (!any || was_measured_now(t) || is_busy() || !tuner_.spend_again(cost)) continue;
      race_again(tuner_.senses(), context_.threads(), entrants);
      for (size_t i = 0; i < entrants.size(); ++i) {
        keep(t, *whose[i], combined(times.at(whose[i]->key), entrants[i].time));
      }
    }
  }

  /// What is known behind another measurement.
  static TunedTime combined(TunedTime before, TunedTime now) {
    const bool doubted = before.state == TimeState::doubted;
    if (now.state != TimeState::settled) {  // as loaded as before
      if (!doubted) before.seconds = std::min(now.seconds, before.seconds);
      before.runs += now.runs;
      return before;
    }
    if (!doubted) now.seconds = std::min(now.seconds, before.seconds);
    if (doubted || before.state == TimeState::confirmed) now.state = TimeState::confirmed;
    return now;
  }

  bool was_measured_now(size_t t) const {
    return std::ranges::find(measured_, t) != measured_.end();
  }
  bool is_busy() const { return tuner_.senses().load(context_.threads()).waiting > 0; }

  /// By times and, for candidates without one, by the model.
  TunedChoice fastest(size_t t) {
    const TunedTask& task = tasks_[t];
    const Times times = tuner_.times(task.problem.name());
    TunedChoice best;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < task.candidates.size(); ++i) {
      const auto found = times.find(task.candidates[i].key);
      const Expectation expected = predict(t, task.candidates[i]);
      TunedChoice choice{.candidate = i};
      double seconds = expected.seconds;
      if (found != times.end()) {
        seconds = found->second.seconds;
        // What was pruned lost against times of others.
        choice.by = DecidedBy::times;
        // Load makes a time too long, never too short.
        if (found->second.state == TimeState::provisional && expected.by_samples &&
            expected.seconds < seconds) {
          seconds = std::sqrt(seconds * expected.seconds);
        }
      } else if (seconds > 0) {
        choice.by = DecidedBy::model;
      } else {
        continue;
      }
      choice.seconds = seconds;
      if (seconds >= least) continue;
      least = seconds;
      best = choice;
    }
    return best;
  }

  Context& context_;
  Tuner& tuner_;
  std::span<const TunedTask> tasks_;
  std::vector<TunedChoice> choices_;
  std::vector<size_t> measured_;
};

}  // namespace

std::vector<TunedChoice> choose_candidates(Context& context, std::span<const TunedTask> tasks) {
  return Decision(context, tasks).take();
}

TunedChoice choose_candidate(Context& context, TunedProblem problem,
                             std::vector<TunedCandidate> candidates) {
  const TunedTask task{std::move(problem), std::move(candidates)};
  return choose_candidates(context, {&task, 1})[0];
}

std::string marked_choice(const TunedChoice& choice, const std::string& key) {
  return text(mark_of(choice.by), key);
}

TunedWatch::TunedWatch(Context& context, std::string problem, std::string candidate)
    : problem_(std::move(problem)), candidate_(std::move(candidate)) {
  if (!measures(context)) return;
  // Only where the decision rests on a time that may be put in doubt.
  const Times times = context.tuner().times(problem_);
  const auto own = times.find(candidate_);
  if (own != times.end() && own->second.state == TimeState::settled && times.size() > 1)
    context_ = &context;
}

void TunedWatch::start() {
  const Senses& senses = context_->tuner().senses();
  switches_ = senses.switches();
  start_ = senses.now();
}

void TunedWatch::stop() {
  const Senses& senses = context_->tuner().senses();
  const double seconds = senses.now() - start_;
  until_ = kEach;
  if (senses.switches() != switches_) return;  // it says nothing
  best_ = std::min(best_, seconds);
  if (++samples_ == kSamples) judge();
}

void TunedWatch::judge() {
  Context& context = *std::exchange(context_, nullptr);
  Tuner& tuner = context.tuner();
  const Times times = tuner.times(problem_);
  const auto own = times.find(candidate_);
  if (own == times.end() || best_ <= kSlowerInNet * own->second.seconds) return;
  const bool others_are_faster = std::ranges::any_of(times, [&](const auto& other) {
    return other.first != candidate_ && other.second.state != TimeState::pruned &&
           other.second.seconds * kClearlyFaster < best_;
  });
  if (!others_are_faster) return;
  if (tuner.senses().load(context.threads()).waiting == 0) {
    tuner.doubt(problem_);
    return;
  }
  // The machine is busy: later.
  constexpr int kLater = 1000;
  context_ = &context;
  until_ = kLater;
  samples_ = 0;
  best_ = std::numeric_limits<double>::infinity();
}

}  // namespace crema
