// The blobs of a net that say which class an image is of.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

class LayerParameter;

/// Whether the layer compares scores of classes, its first bottom, with labels, its second one.
bool compares_scores(const LayerParameter& layer);
/// The blobs that such layers read as scores, of a net of these options.
std::vector<std::string> score_blobs(const NetParameter& net, const NetOptions& options);

}  // namespace crema
