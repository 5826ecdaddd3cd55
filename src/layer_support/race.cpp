#include "layer_support/race.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace crema {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A turn has runs for this time, one at least.
constexpr double kTurnSeconds = 4e-4;
constexpr int kMostRunsOfTurn = 8;
/// A candidate whose first run is longer, and slower than the fastest candidate by kFarBehind, does
/// not run again: what a first run does besides is not as much.
constexpr double kLongRun = 3e-2, kFarBehind = 3;
constexpr double kShortRun = 2e-5;
/// Candidates within this factor of the fastest one go on, while others use the machine within the
/// second one.
constexpr double kNear = 1.2, kNearUnderLoad = 1.7;
/// Rounds behind the heat; on a machine that others use the second number. A long run is less
/// disturbed by clocks and caches, so it has fewer of them.
constexpr double kFewRounds = 4e-3;
constexpr int kRounds = 3, kRoundsOfLongRuns = 1, kRoundsUnderLoad = 6;
/// A machine that was at rest gives a thread that slept a while without interruption.
constexpr double kNap = 3e-3;
/// A share of interrupted runs or stolen time above which a measurement was disturbed.
constexpr double kDisturbed = 0.1, kStolen = 0.02;
constexpr double kSameTime = 0.05;
/// How much of the difference between the model and the candidates of a problem that were measured
/// is that of the problem, and so of all of its candidates.
constexpr double kOfTheProblem = 0.6;

/// What a race knows of an entrant.
struct Runner {
  Entrant* entrant;
  std::function<void()> run;
  double best = kNever, second = kNever;
  int runs = 0, switched = 0;
  bool out = false;

  /// A run that counts.
  double add(double seconds) {
    second = std::min(std::max(best, seconds), second);
    best = std::min(best, seconds);
    return seconds;
  }
};

class Race {
 public:
  Race(const Senses& senses, int threads, std::span<Entrant> entrants)
      : senses_(senses), threads_(threads), before_(senses.load(threads)), start_(senses.now()) {
    waiting_ = before_.waiting;
    size_t tasks = 0;
    for (Entrant& entrant : entrants) {
      Runner& runner = runners_.emplace_back();
      runner.entrant = &entrant;
      if (entrant.known > 0) {
        runner.best = entrant.known;
        runner.out = true;
      }
      tasks = std::max(tasks, entrant.task + 1);
    }
    best_.assign(tasks, kNever);
    for (const Runner& runner : runners_) note(runner);
  }

  void run_heat() {
    std::vector<Runner*> order;
    for (Runner& runner : runners_) {
      if (!runner.out) order.push_back(&runner);
    }
    // Those without a prediction come first, in the order of the caller.
    std::ranges::stable_sort(
        order, {}, [](const Runner* runner) { return runner->entrant->prediction.seconds; });
    for (Runner* const runner : order) {
      if (cannot_win(*runner)) {
        runner->out = true;
        runner->entrant->time = {.seconds = expected(*runner), .state = TimeState::pruned};
        continue;
      }
      heat(*runner);
    }
  }

  void run_rounds() {
    int rounds = kRounds;
    for (int round = 0; round < rounds; ++round) {
      if (is_disturbed()) rounds = kRoundsUnderLoad;
      if (rounds == kRoundsUnderLoad) senses_.nap(kNap);
      bool any = false;
      for (Runner& runner : runners_) {
        if (!goes_on(runner, round)) continue;
        turn(runner);
        any = true;
      }
      if (!any) break;
      waiting_ = std::max(waiting_, senses_.load(threads_).waiting);
    }
  }

  void run_again(int turns) {
    for (Runner& runner : runners_) first_run(runner);
    for (int i = 0; i < turns; ++i) {
      for (Runner& runner : runners_) turn(runner);
    }
  }

  void finish() {
    const Load after = senses_.load(threads_);
    waiting_ = std::max(waiting_, after.waiting);
    const double seconds = (senses_.now() - start_) * threads_;
    const double stolen = seconds > 0 ? (after.stolen - before_.stolen) / seconds : 0;
    for (const Runner& runner : runners_) {
      if (runner.runs == 0) continue;
      TunedTime& time = runner.entrant->time;
      time.seconds = runner.best;
      time.runs = runner.runs;
      time.spread = std::isfinite(runner.second) ? runner.second / runner.best - 1 : 0;
      time.waiting = waiting_;
      time.stolen = std::max(0.0, stolen);
      time.switched = share_of_switches(runner);
      // Short interruptions are everywhere. Two runs of the same time had none that counts.
      const bool interrupted = time.switched > kDisturbed && time.spread > kSameTime;
      const bool disturbed = waiting_ > 0 || stolen > kStolen || interrupted;
      time.state = disturbed ? TimeState::provisional : TimeState::settled;
    }
  }

 private:
  static double share_of_switches(const Runner& runner) {
    return static_cast<double>(runner.switched) / std::max(runner.runs, 1);
  }

  void note(const Runner& runner) {
    double& best = best_[runner.entrant->task];
    best = std::min(best, runner.best);
    fastest_ = std::min(fastest_, best);
    const double predicted = runner.entrant->prediction.seconds;
    if (runner.runs == 0 || predicted <= 0) return;
    difference_ = (difference_ * compared_ + std::log(runner.best / predicted)) / (compared_ + 1);
    compared_ += 1;
  }

  /// The seconds that the model expects, corrected by what the others of the problem took.
  double expected(const Runner& runner) const {
    return runner.entrant->prediction.seconds * std::exp(kOfTheProblem * difference_);
  }

  bool cannot_win(const Runner& runner) const {
    const Expectation& prediction = runner.entrant->prediction;
    if (prediction.seconds <= 0 || !std::isfinite(fastest_)) return false;
    const double least = expected(runner) / prediction.factor;
    // Overhead, which the model does not know, is a large part of a short run.
    return least > kShortRun &&
           (least > best_[runner.entrant->task] || least > kHopeless * fastest_);
  }

  double timed(Runner& runner) {
    const int64_t before = senses_.switches();
    const double start = senses_.now();
    runner.run();
    const double seconds = senses_.now() - start;
    ++runner.runs;
    if (senses_.switches() != before) ++runner.switched;
    return seconds;
  }

  double first_run(Runner& runner) {
    runner.run = (*runner.entrant->prepare)();
    return timed(runner);
  }

  void turn(Runner& runner) {
    double spent = 0;
    for (int i = 0; i < kMostRunsOfTurn && (i == 0 || spent < kTurnSeconds); ++i) {
      spent += runner.add(timed(runner));
    }
    note(runner);
  }

  void heat(Runner& runner) {
    const double task = best_[runner.entrant->task];
    const double first = first_run(runner);
    if (first > kLongRun && (first > kFarBehind * task || first > kFarBehind * fastest_)) {
      runner.add(first);
      leave(runner);
      return;
    }
    turn(runner);
    if (runner.best > kFarBehind * best_[runner.entrant->task]) leave(runner);
  }

  void leave(Runner& runner) {
    runner.out = true;
    runner.run = {};
  }

  bool goes_on(Runner& runner, int round) {
    if (runner.out) return false;
    const double best = best_[runner.entrant->task];
    const bool hopeless = best > kHopeless * fastest_;
    const double near = is_disturbed() ? kNearUnderLoad : kNear;
    const Expectation& prediction = runner.entrant->prediction;
    const bool odd = prediction.by_samples && round < kRounds &&
                     runner.best > prediction.factor * prediction.seconds * 1.25 &&
                     prediction.seconds < near * best;
    const bool enough =
        runner.best > kFewRounds && round >= kRoundsOfLongRuns && !is_disturbed() && !odd;
    if (!enough && !hopeless && (runner.best <= near * best || odd)) return true;
    // It may come back into reach while others are measured no more.
    if (runner.best > kFarBehind * best || hopeless) leave(runner);
    return false;
  }

  bool is_disturbed() const { return waiting_ > 0; }

  const Senses& senses_;
  int threads_;
  Load before_;
  double start_;
  int waiting_ = 0;
  std::vector<Runner> runners_;
  std::vector<double> best_;  // of each task
  double fastest_ = kNever;
  double difference_ = 0;  // mean logarithm of measured over predicted seconds
  double compared_ = 0;
};

}  // namespace

void race(const Senses& senses, int threads, std::span<Entrant> entrants) {
  Race race(senses, threads, entrants);
  race.run_heat();
  race.run_rounds();
  race.finish();
}

void race_again(const Senses& senses, int threads, std::span<Entrant> entrants) {
  Race race(senses, threads, entrants);
  race.run_again(2);
  race.finish();
}

}  // namespace crema
