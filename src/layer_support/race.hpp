// Measuring candidates in turn: A B C A B C.
//
// Another program disturbs some rounds, and a round disturbs all candidates alike. The fastest run
// of a candidate counts. The rounds:
//
//   heat      each candidate once, those first that are expected to be the fastest. The first run
//             of a candidate takes memory and packs weights, so the second one counts. A candidate
//             that cannot win by what the model expects of it is not run (pruned).
//   rounds    those that are near the fastest one, and those that are far slower than the model
//             expects by like problems. More of them, with pauses between, where others use the
//             machine.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/load.hpp"
#include "core/speed_model.hpp"
#include "core/tuned_time.hpp"

namespace crema {

/// Makes what a candidate needs, and returns what runs it once. What was made lives as long as the
/// result.
using Preparation = std::function<std::function<void()>()>;

struct Entrant {
  const Preparation* prepare = nullptr;
  /// Entrants of one task compete. Entrants of other tasks of the race are measured as long as
  /// their task may come near the fastest one.
  size_t task = 0;
  Expectation prediction = {};
  /// Seconds that are known already: it is not run. 0: none.
  double known = 0;
  /// The result: pruned, or the time with the load of the race.
  TunedTime time = {};
};

/// Tasks that are slower than the fastest one by this factor are not measured further.
inline constexpr double kHopeless = 2;

void race(const Senses& senses, int threads, std::span<Entrant> entrants);

/// One round more: each entrant runs twice, in turn, behind a first run.
void race_again(const Senses& senses, int threads, std::span<Entrant> entrants);

}  // namespace crema
