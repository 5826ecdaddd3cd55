// A net as a drawing, in the language of Graphviz.
#pragma once

#include <optional>
#include <string>

#include "crema/net.hpp"
#include "proto/net.pb.h"

namespace crema {

struct DrawOptions {
  std::string rankdir = "LR";  // direction of the graph: LR, TB, BT or RL
  /// Level, stages and phase of the layers to draw. None: layers of all phases.
  std::optional<NetOptions> state = {};
  /// The net built from the same message; adds shapes and which layers were fused. May be null.
  const Net* net = nullptr;
};

/// The graph of the layers. Boxes are layers, octagons are blobs in
/// the state that the last layer leaves them in. A dashed edge is a blob that a layer behind it
/// changes in place. Error for another direction.
std::string draw_net(const NetParameter& net, const DrawOptions& options);

}  // namespace crema
