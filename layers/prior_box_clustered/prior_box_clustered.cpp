// PriorBoxClustered: default boxes of given widths and heights. See README.md.
#include "layer_support/unused_settings.hpp"
#include "layers/prior_box/prior_boxes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

std::vector<PriorBoxLayer::Size> sizes_of(const PriorBoxParameter& settings) {
  if (settings.width_size() == 0 || settings.width_size() != settings.height_size())
    throw Error(settings.width_size(), " values of width and ", settings.height_size(),
                " of height are no boxes; give one of each a box, in pixels");
  std::vector<PriorBoxLayer::Size> sizes;
  for (int k = 0; k < settings.width_size(); ++k) {
    if (!(settings.width(k) > 0 && settings.height(k) > 0))
      throw Error("a box of ", settings.width(k), " x ", settings.height(k), " pixels has no area");
    sizes.push_back(
        {static_cast<double>(settings.width(k)), static_cast<double>(settings.height(k))});
  }
  return sizes;
}

class WidthsAndHeights : public PriorBoxLayer {
 public:
  explicit WidthsAndHeights(const LayerInit& init)
      : PriorBoxLayer(init, sizes_of(init.param.prior_box_param())) {
    warn_without_effect(init, init.param.prior_box_param(),
                        {"min_size", "max_size", "aspect_ratio", "flip"},
                        "on PriorBoxClustered; width and height are the boxes");
  }
};

}  // namespace

void register_prior_box_clustered(Registry& registry) {
  add_two_sided<WidthsAndHeights>(registry, "PriorBoxClustered");
}

}  // namespace crema
