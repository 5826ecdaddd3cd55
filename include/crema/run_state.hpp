// RunState: what a training or inference run changes from pass to pass, apart from parameters.
#pragma once

#include <cstdint>

namespace crema {

/// The address of random numbers and of a process's share of the data. A net owns one and advances
/// it by itself; the nets of a solver use the solver's.
struct RunState {
  uint64_t seed = 1701;
  /// Training iteration, or number of the forward pass where no solver counts.
  uint64_t iteration = 0;
  /// Pass within an iteration (`iter_size`), so that each draws numbers of its own.
  uint64_t pass = 0;
  /// This process among those that train together; 0 <= rank < world_size.
  int64_t rank = 0;
  int64_t world_size = 1;
  /// A forward pass of some layers is repeated because their tops were dropped. Layers that change
  /// something besides their tops, such as running statistics, leave it as it is.
  bool recomputing = false;
};

}  // namespace crema
