// The rules by which a layer is in a net or not: include and exclude, of phase, level and stages.
#pragma once

#include <string>

#include "crema/net.hpp"

namespace crema {

class LayerParameter;
class NetParameter;
class NetStateRule;

/// Whether the stage is one of the options.
bool has_stage(const NetOptions& options, const std::string& stage);
/// Whether the rule holds for phase, level and stages of the options.
bool holds(const NetStateRule& rule, const NetOptions& options);
/// Whether the layer's rules put it into a net of these options. Error for a layer with rules of
/// both kinds.
bool in_state(const LayerParameter& layer, const NetOptions& options);
/// Adds the stages of the net's `state` to the options, and its level if the options have none.
void merge_state(const NetParameter& net, NetOptions& options);

}  // namespace crema
