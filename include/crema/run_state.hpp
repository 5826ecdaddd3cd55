// RunState: the state of a run that changes from pass to pass, other than parameters.
#pragma once

#include <cstdint>

namespace crema {

/// Random numbers are functions of seed, iteration and pass. rank and world_size select the part of
/// the data that this process reads. A net has its own RunState and advances it; all nets of a
/// solver use the solver's.
struct RunState {
  uint64_t seed = 1701;
  /// The training iteration. Without a solver: the number of the forward pass.
  uint64_t iteration = 0;
  /// The pass within an iteration, or the batch of a test. Each has random numbers of its own.
  uint64_t pass = 0;
  /// The number of this process among those that train together; 0 <= rank < world_size.
  int64_t rank = 0;
  int64_t world_size = 1;
  /// The net repeats the forward pass of a layer whose tops were dropped (`recompute`). The layer
  /// must write its tops only, and not update running statistics.
  bool recomputing = false;
};

}  // namespace crema
