// What a measurement of time is disturbed by: other programs on the processors.
//
// Threads: all functions may be called at the same time.
#pragma once

#include <cstdint>
#include <functional>

namespace crema {

/// The load of the machine at a moment.
struct Load {
  /// Threads of other processes that run or wait for a processor, above the number of processors
  /// that the threads of this context leave free: 0 if there is a processor for each.
  int waiting = 0;
  double stolen = 0;  // seconds that a hypervisor took from the processors, since the machine began
};

/// What measures time and load. Tests have their own, which follow a script.
struct Senses {
  std::function<double()> now;              // seconds of a clock that never goes back
  std::function<int64_t()> switches;        // how often a thread of the process lost its processor
  std::function<Load(int threads)> load;    // `threads`: that the context computes with
  std::function<void(double seconds)> nap;  // lets other threads run
};

/// Those of the system. Where the system does not tell the load, as outside of Linux, it is 0.
Senses system_senses();

}  // namespace crema
