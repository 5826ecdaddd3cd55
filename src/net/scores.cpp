#include "net/scores.hpp"

#include <algorithm>

#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {

bool compares_scores(const LayerParameter& layer) {
  return (layer.type() == "SoftmaxWithLoss" || layer.type() == "Accuracy") &&
         layer.bottom_size() >= 2;
}

std::vector<std::string> score_blobs(const NetParameter& net, const NetOptions& options) {
  std::vector<std::string> blobs;
  const NetParameter resolved = layers_of(net, options);
  for (const LayerParameter& layer : resolved.layer()) {
    if (compares_scores(layer) && std::ranges::count(blobs, layer.bottom(0)) == 0)
      blobs.push_back(layer.bottom(0));
  }
  return blobs;
}

}  // namespace crema
