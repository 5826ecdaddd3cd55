// TunedTime: what is known of the time of a candidate for a problem.
#pragma once

#include <cstdint>
#include <string_view>

namespace crema {

enum class TimeState : uint8_t {
  settled,
  /// Measured while others used the machine: it counts, and a later run measures it again.
  provisional,
  /// A net ran slower than its decision said, and others would be faster: as provisional, but the
  /// next measurement takes its place even if that is slower.
  doubted,
  /// Measured again after a doubt. It is not put in doubt again.
  confirmed,
  /// Not measured: `seconds` is what the model expected of it, too much to win.
  pruned,
};

/// "settled", "provisional", ...
std::string_view to_string(TimeState state);

struct TunedTime {
  double seconds = 0;  // of the fastest run
  int runs = 0;        // that were timed
  double spread = 0;   // how much slower the second fastest run was, as a share of the fastest
  // The load while it was measured:
  int waiting = 0;      // the most threads without a processor (Load::waiting)
  double stolen = 0;    // share of the time of all processors that a hypervisor took
  double switched = 0;  // share of the runs in which a thread lost its processor
  TimeState state = TimeState::settled;

  /// Whether a later run measures it again.
  bool is_open() const { return state == TimeState::provisional || state == TimeState::doubted; }
};

}  // namespace crema
