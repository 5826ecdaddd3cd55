// What an iteration of several processes takes, from the times of one process and the network: the
// model of `crema scale`. Backward and the sums of gradients go on side by side, as
// solver/gradient_exchange.hpp has them.
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

/// Of one process, with its part of the batch.
struct MeasuredIteration {
  double forward = 0, update = 0;  // seconds
  /// A step of backward, in the order in which they run.
  struct Step {
    double seconds = 0;
    double bytes = 0;  // of the gradients that are complete behind it
  };
  std::vector<Step> backward;

  double seconds() const;
  double bytes() const;
};

struct NetworkModel {
  double bandwidth = 0;   // bytes a second that a process sends, and receives at the same time
  double latency = 0;     // seconds from the start of a message to its arrival
  double message = 1e-6;  // seconds that a process needs for a message, however short
  double sum_rate = 4e9;  // bytes a second that a process adds up
};

/// Seconds of an all-reduce of so many bytes. Each process sends size - 1 parts of bytes / size to
/// the others, adds up what comes, and sends the sums.
double all_reduce_seconds(double bytes, int64_t processes, const NetworkModel& network);

struct ScaledIteration {
  double seconds = 0;
  double exposed = 0;     // of them, waiting for gradients behind backward
  double efficiency = 0;  // how much of the rate of so many processes that need no network
};

/// With buckets of `bucket` bytes, the first of `first`.
ScaledIteration scaled_iteration(const MeasuredIteration& one, int64_t processes,
                                 const NetworkModel& network, double bucket,
                                 double first = 1 << 20);

/// The bucket size, of 1, 2, 5, 10, 25, 50, 100, 200 MB, with the shortest iteration.
double best_bucket(const MeasuredIteration& one, int64_t processes, const NetworkModel& network);

}  // namespace crema
