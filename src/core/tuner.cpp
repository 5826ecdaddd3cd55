#include "core/tuner.hpp"

#include <cmath>

namespace crema {
namespace {

/// The name of a candidate without the revision of its code, for the model.
std::string kernel_of(const std::string& candidate) {
  return candidate.substr(0, candidate.find(" @"));
}

}  // namespace

std::map<std::string, TunedTime> Tuner::times(const std::string& problem) const {
  const std::lock_guard lock(mutex_);
  const auto known = times_.find(problem);
  return known == times_.end() ? std::map<std::string, TunedTime>() : known->second.times;
}

void Tuner::add_sample(const std::string& problem, const std::string& candidate,
                       const TunedTime& time, double usual) {
  if (time.state == TimeState::pruned) return;
  model_.add(problem, times_[problem].workload, kernel_of(candidate), usual, time.seconds);
}

void Tuner::keep(const std::string& problem, const Workload& workload, const std::string& candidate,
                 double usual, const TunedTime& time) {
  const std::lock_guard lock(mutex_);
  TuningProblem& record = times_[problem];
  record.workload = workload;
  record.times[candidate] = time;
  own_[problem][candidate] = true;
  news_ = true;
  add_sample(problem, candidate, time, usual);
}

double Tuner::timed(const std::string& problem, const std::string& candidate,
                    const std::function<double()>& clock) {
  {
    const std::lock_guard lock(mutex_);
    const auto& known = times_[problem].times;
    if (const auto found = known.find(candidate); found != known.end())
      return found->second.seconds;
  }
  const double measured = clock();
  // It could not run now, for instance for want of memory. Another net may have more.
  if (!std::isfinite(measured)) return measured;
  // Another thread may have measured the same pair: all use the first result.
  const std::lock_guard lock(mutex_);
  news_ = true;
  own_[problem][candidate] = true;
  return times_[problem]
      .times.emplace(candidate, TunedTime{.seconds = measured, .runs = 1})
      .first->second.seconds;
}

std::vector<Tuner::Time> Tuner::all(const std::string& prefix) const {
  std::vector<Time> found;
  const std::lock_guard lock(mutex_);
  for (auto at = times_.lower_bound(prefix); at != times_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    for (const auto& [candidate, time] : at->second.times) {
      found.push_back({time, at->first, candidate});
    }
  }
  return found;
}

std::vector<Tuner::Time> Tuner::measured(const std::string& prefix) const {
  std::vector<Time> found = all(prefix);
  std::erase_if(found, [](const Time& time) { return time.state == TimeState::pruned; });
  return found;
}

Expectation Tuner::predict(const std::string& problem, const Workload& workload,
                           const std::string& candidate, double usual) const {
  const std::lock_guard lock(mutex_);
  return model_.predict(problem, workload, kernel_of(candidate), usual);
}

bool Tuner::spend_again(double seconds) {
  const std::lock_guard lock(mutex_);
  if (again_ > 0 && again_ + seconds > kMostAgain) return false;
  again_ += seconds;
  return true;
}

bool Tuner::doubt(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  const auto known = times_.find(problem);
  if (known == times_.end()) return false;
  bool doubted = false;
  for (auto& [candidate, time] : known->second.times) {
    if (time.state != TimeState::settled) continue;
    time.state = TimeState::doubted;
    own_[problem][candidate] = true;
    doubted = news_ = true;
  }
  return doubted;
}

void Tuner::take(const TuningTimes& times) {
  for (const auto& [name, problem] : times) {
    TuningProblem& known = times_[name];
    if (known.workload.multiply_adds <= 0) known.workload = problem.workload;
    const auto own = own_.find(name);
    for (const auto& [candidate, time] : problem.times) {
      if (own != own_.end() && own->second.contains(candidate)) continue;
      known.times[candidate] = time;
      add_sample(name, candidate, time, 0);
    }
  }
}

void Tuner::load(const std::string& path) {
  const TuningTimes read = read_tuning_file(path);
  const std::lock_guard lock(mutex_);
  if (!anew_) take(read);
}

bool Tuner::save(const std::string& path) {
  TuningTimes all = read_tuning_file(path);
  {
    const std::lock_guard lock(mutex_);
    if (!anew_) take(all);
    for (const auto& [name, problem] : times_) {
      TuningProblem& written = all[name];
      written.workload = problem.workload;
      for (const auto& [candidate, time] : problem.times) written.times[candidate] = time;
    }
  }
  std::erase_if(all, [](const auto& problem) { return problem.second.times.empty(); });
  if (!write_tuning_file(path, all)) return false;
  const std::lock_guard lock(mutex_);
  news_ = false;
  return true;
}

bool Tuner::has_news() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

void Tuner::forget_times() {
  const std::lock_guard lock(mutex_);
  times_.clear();
  own_.clear();
  model_ = {};
  anew_ = true;
}

bool Tuner::chosen(const std::string& problem, std::string& candidate) const {
  const std::lock_guard lock(mutex_);
  const auto known = choices_.find(problem);
  if (known == choices_.end()) return false;
  candidate = known->second.candidate;
  return true;
}

void Tuner::choose(const std::string& problem, const std::string& candidate) {
  const std::lock_guard lock(mutex_);
  const auto [choice, is_new] = choices_.try_emplace(problem);
  if (!is_new) order_.erase(choice->second.when);
  choice->second = {candidate, choices_made_++};
  order_.emplace(choice->second.when, problem);
  if (order_.size() <= kMostChoices) return;
  const auto oldest = order_.begin();
  choices_.erase(oldest->second);
  order_.erase(oldest);
}

std::map<std::string, std::string> Tuner::choices() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> all;
  for (const auto& [problem, choice] : choices_) all.emplace(problem, choice.candidate);
  return all;
}

}  // namespace crema
