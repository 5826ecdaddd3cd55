// Weights that come in several files.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// Loads files of weights one after the other, so that a later one wins, and logs what became of
/// each. `strict` is about their union: Error unless every layer of the net with parameters is in
/// one of the files, and every layer of theirs in the net. A net after an Error has some of the
/// weights.
void load_weight_files(Net& net, const std::vector<std::string>& files, bool strict);

}  // namespace crema
