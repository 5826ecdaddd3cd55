// on_oom: HALVE_BATCH of the settings: a training net with batches of half the size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

class NetParameter;
class SampledLayer;  // data/batches/sampled_layer.hpp

/// Halves batch_size of the layers that a net of these options has no bottoms of. Error where one
/// of them has none, or an odd one; it says which. Returns what was halved, for messages: "'data'
/// from 64 to 32".
std::string halve_batches(NetParameter& net, NetOptions options);

/// Divides them by `parts` in the same way, for as many processes.
std::string divide_batches(NetParameter& net, NetOptions options, int64_t parts);

/// As halve_batches() in a net that is made, from the present positions in the data on, and planned
/// for the new batches. Error also where a layer carries states of a batch's samples to the next
/// batch, or gives batches of one size alone; nothing has changed then. Errors of
/// plan_next_batches().
std::string halve_batches(Net& net);

/// The data layers of the net, which all can give batches of other sizes. Error as above, where
/// one cannot, or where there is none.
std::vector<SampledLayer*> resizable_sources(Net& net);

/// What a batch of half the size changes beside the memory: a text that follows a message, or "".
std::string effect_of_halving(const Net& net);

}  // namespace crema
