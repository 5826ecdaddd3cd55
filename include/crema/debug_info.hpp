// The lines of the published `debug_info`: the mean of the absolute values of each blob, each
// parameter and their diffs, in the order in which they are computed.
//
//   [Forward] Layer ip, top blob ip data: 0.503
//   [Forward] Layer ip, param blob 0 data: 0.0401
//   [Backward] Layer ip, bottom blob data diff: 0.0022
//   [Backward] Layer ip, param blob 0 diff: 0.0139
//   [Backward] All net params (data, diff): L1 norm = (21.7, 6.51); L2 norm = (1.2, 0.4)
//   [Update] Layer ip, param 0 data: 0.0401; diff: 0.000139
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// Whether the passes of the net log these lines from now on. They do in any case if the net has
/// `debug_info: true`. A net that fuses layers logs what it makes; for all blobs, build it with
/// NetOptions::fuse false.
void set_debug_info(Net& net, bool on);
/// Whether they do.
bool has_debug_info(const Net& net);

/// Logs the [Update] lines of one update of a net's parameters, if the passes of the net are
/// logged. The diff is what the update takes away from the values.
class UpdateInfo {
 public:
  /// Before the update.
  explicit UpdateInfo(Net& net);
  /// Behind the update.
  void log() const;

 private:
  Net& net_;
  std::vector<Tensor> before_;  // of ParameterArena::segments(); without memory: does not learn
};

}  // namespace crema
