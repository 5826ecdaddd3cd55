// Choosing the fastest of several ways to compute a problem, for engines that have several.
//
//   const TunedProblem problem{"my layer forward 2t 16x32 of ", Shape{28, 28}};
//   std::vector<TunedCandidate> candidates = {{"direct @3", [&] { run_direct(); }}, ...};
//   const TunedChoice choice = choose_candidate(context, problem, candidates);
//
// Times and choices are kept by the tuner of the context (core/tuner.hpp).
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>

#include "crema/context.hpp"
#include "crema/shape.hpp"

namespace crema {

/// The problems of one family differ in `extents` only. A problem takes the choice of a measured
/// one of its family if the products of their extents differ by at most a quarter. A fully
/// convolutional net would otherwise measure each size of images.
struct TunedProblem {
  std::string family;
  Shape extents;

  /// The name in the tuner.
  std::string name() const { return family + extents.str(); }
};

struct TunedCandidate {
  std::string key;            // its name in the tuner, with the revision of its code
  std::function<void()> run;  // computes the problem once, for measuring
  /// Where the CPU's clock does not tell, in place of `run`: the seconds of one run; infinite if
  /// the candidate cannot run.
  std::function<double()> clock = {};
};

struct TunedChoice {
  size_t candidate = 0;  // its index
  double seconds = 0;    // of one run; 0 without tuning
};

/// The candidate that the tuner has as chosen; else that of a similar problem, with its seconds
/// scaled; else the fastest. Without tuning: the chosen one, else the first. Measuring of a
/// candidate that is much slower than `time_limit` stops early. `candidates` must not be empty.
TunedChoice choose_candidate(Context& context, const TunedProblem& problem,
                             std::span<const TunedCandidate> candidates,
                             double time_limit = std::numeric_limits<double>::infinity());

}  // namespace crema
