// Defaults that stand in the nets that programs write.
#pragma once

#include <string>
#include <vector>

namespace crema {

class NetParameter;

/// Sets those fields of detection layers to their defaults for which other readers of prototxts
/// have other defaults, or none: of DetectionOutput, PriorBox, PriorBoxClustered and Proposal.
/// Fields that are set stay, and the net computes the same. Of layers in the current form.
/// Returns what was set, a text a layer: "layer 'p' (PriorBox): clip: false written out".
std::vector<std::string> write_out_defaults(NetParameter& net);

}  // namespace crema
