// Choosing the fastest of several ways to compute a problem, for engines that have several.
//
//   const TunedProblem problem{"my layer forward 2t 16x32 of ", Shape{28, 28}};
//   std::vector<TunedCandidate> candidates = {{.key = "direct @3", .prepare = [&] { ... }}, ...};
//   const TunedChoice choice = choose_candidate(context, problem, candidates);
//
// What is decided, from the first that applies:
//   1. the choice of this run, or of the snapshot that it began from;
//   2. that of a similar problem that was measured;
//   3. the times of this problem. Those that are missing are measured (race.hpp), but for
//      candidates that cannot win by what the model expects. Times that were taken under load are
//      measured again, a few milliseconds a run (Tuner::spend_again);
//   4. without measuring, what the model expects; without a model, the first candidate.
// Times, model and choices are kept by the tuner of the context (core/tuner.hpp).
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/decided_by.hpp"
#include "crema/context.hpp"
#include "crema/shape.hpp"
#include "layer_support/race.hpp"

namespace crema {

/// The problems of one family differ in `extents` only. A problem takes the choice of a measured
/// one of its family if the products of their extents differ by at most a quarter. A fully
/// convolutional net would otherwise measure each size of images.
struct TunedProblem {
  std::string family;
  Shape extents;
  Workload workload = {};  // for the model; without one, all candidates are measured

  /// The name in the tuner.
  std::string name() const { return family + extents.str(); }
};

struct TunedCandidate {
  std::string key;      // its name in the tuner, "NAME @REVISION of its code"
  Preparation prepare;  // for measuring
  /// Where the CPU's clock does not tell, in place of `prepare`: the seconds of one run; infinite
  /// if the candidate cannot run.
  std::function<double()> clock = {};
  double usual = 0;  // share of the peak, see SpeedModel
};

struct TunedTask {
  TunedProblem problem;
  std::vector<TunedCandidate> candidates;  // one at least
};

struct TunedChoice {
  size_t candidate = 0;  // its index
  double seconds = 0;    // of one run; 0: unknown
  DecidedBy by = DecidedBy::order;
};

/// The choice of each task. The tasks are ways to compute one thing too, such as by tensors in
/// several formats: those that are hopeless beside others are measured little. Without tuning
/// (ContextOptions::tune): the choice of this run, else the first.
std::vector<TunedChoice> choose_candidates(Context& context, std::span<const TunedTask> tasks);

/// The same for one task.
TunedChoice choose_candidate(Context& context, TunedProblem problem,
                             std::vector<TunedCandidate> candidates);

/// The entry of Option::choice for a candidate that was chosen.
std::string marked_choice(const TunedChoice& choice, const std::string& key);

/// Compares the runs of a kernel with the times that decided for it, in a few runs of many. Where
/// another candidate would be faster by its record, the decision is put in doubt: the next run of
/// the program measures it again. One thread at a time may use it.
class TunedWatch {
 public:
  TunedWatch() = default;  // watches nothing
  TunedWatch(Context& context, std::string problem, std::string candidate);

  template <class Run>
  void operator()(const Run& run) {
    if (!is_due()) return run();
    start();
    run();
    stop();
  }

 private:
  /// The first runs have cold caches. Then one run of kEach is timed.
  static constexpr int kFirst = 8, kEach = 16, kSamples = 8;
  bool is_due() { return context_ != nullptr && --until_ <= 0; }
  void start();
  void stop();
  void judge();

  Context* context_ = nullptr;
  std::string problem_, candidate_;
  int until_ = kFirst, samples_ = 0;
  double start_ = 0, best_ = std::numeric_limits<double>::infinity();
  int64_t switches_ = 0;
};

}  // namespace crema
