#include "analysis/scale_model.hpp"

#include <algorithm>
#include <limits>

namespace crema {

double MeasuredIteration::seconds() const {
  double sum = forward + update;
  for (const Step& step : backward) sum += step.seconds;
  return sum;
}

double MeasuredIteration::bytes() const {
  double sum = 0;
  for (const Step& step : backward) sum += step.bytes;
  return sum;
}

double all_reduce_seconds(double bytes, int64_t processes, const NetworkModel& network) {
  if (processes <= 1 || bytes <= 0) return 0;
  const auto others = static_cast<double>(processes - 1);
  const double part = bytes / static_cast<double>(processes);
  const double phase =
      network.latency + others * std::max(network.message, part / network.bandwidth);
  // Sums are added up while the next pieces come; only what is slower than the network counts.
  const double sums = others * part / network.sum_rate;
  return phase + std::max(phase, network.latency + sums);
}

ScaledIteration scaled_iteration(const MeasuredIteration& one, int64_t processes,
                                 const NetworkModel& network, double bucket, double first) {
  double now = one.forward, free = one.forward;  // when the network is done with what it has
  double collected = 0, most = first;
  const auto start = [&] {
    free = std::max(free, now) + all_reduce_seconds(collected, processes, network);
    collected = 0;
    most = bucket;
  };
  for (const MeasuredIteration::Step& step : one.backward) {
    now += step.seconds;
    collected += step.bytes;
    if (collected >= most) start();
  }
  if (collected > 0) start();
  ScaledIteration scaled;
  scaled.exposed = std::max(0.0, free - now);
  scaled.seconds = now + scaled.exposed + one.update;
  scaled.efficiency = scaled.seconds > 0 ? one.seconds() / scaled.seconds : 1;
  return scaled;
}

double best_bucket(const MeasuredIteration& one, int64_t processes, const NetworkModel& network) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const double megabytes : {1, 2, 5, 10, 25, 50, 100, 200}) {
    const double bytes = megabytes * (1 << 20);
    const double seconds = scaled_iteration(one, processes, network, bytes).seconds;
    if (seconds >= least * (1 - 1e-9)) continue;
    best = bytes;
    least = seconds;
  }
  return best;
}

}  // namespace crema
