// Runs the blocks of channel_blocks.hpp on a device, with the ends of sums that a layer has of its
// own. For sources that include layer_support/passes.hpp.
#pragma once

#include <limits>
#include <vector>

#include "layer_support/channel_blocks.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/passes.hpp"

#ifdef __CUDACC__
#include "backend/cuda/channel_blocks.cuh"
#endif

namespace crema::channels {

/// Runs all phases of all blocks. On the device of the tests, a thread after the other; memory that
/// no thread has written holds NaN.
template <class Blocks>
void run_phases(const ComputeDevice& device, const Blocks& body) {
#ifdef __CUDACC__
  if (!device.on_host()) return cuda_run_phases(cuda(*device.backend()), body);
#endif
  require_host(device);
  const auto run = [body] {
    constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
    for (int64_t block = 0; block < body.blocks(); ++block) {
      std::vector<SumPair> shared(static_cast<size_t>(body.shared()), SumPair{kNothing, kNothing});
      for (int phase = 0; phase < Blocks::kPhases; ++phase) {
        for (int thread = 0; thread < ChannelGrid::kThreads; ++thread) {
          body.run(phase, block, thread, shared.data());
        }
      }
    }
  };
  if (!queued_for_test(device, run)) run();
}

/// finish(i, sums) for all channel numbers i, with the sums of all pieces.
template <class Finish>
void finish_sums(const ComputeDevice& device, const PartialSums& of, const Finish& finish) {
  if (of.pieces == 1)
    return for_each(device, of.count, kPassGrain, FinishEach<Finish>{of.sums, finish});
  run_phases(device, FinishBlocks<Finish>{of.sums, of.pieces, of.count, finish});
}

}  // namespace crema::channels
