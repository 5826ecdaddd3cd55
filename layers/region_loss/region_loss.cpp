// RegionLoss: the loss of YOLO v2. See README.md.
#include <numeric>

#include "layers/region_loss/grid_loss.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

GridLossSettings settings_of(const RegionLossParameter& param) {
  if (param.coords() != 4)
    throw Error("coords ", param.coords(), " is not offered; a box has 4: x, y, width, height");
  if (!param.softmax_tree().empty() || !param.class_map().empty())
    throw Error("softmax_tree and class_map, hierarchies of classes, are not offered; remove them");
  GridLossSettings settings;
  settings.anchors = grid_anchors({param.biases().data(), size_t(param.biases_size())}, 1);
  if (settings.anchors.size() != param.num())
    throw Error("num is ", param.num(), ", but biases has width and height of ",
                settings.anchors.size(), " anchor boxes; give both for each");
  settings.mask.resize(settings.anchors.size());
  std::iota(settings.mask.begin(), settings.mask.end(), 0);
  settings.classes = param.num_class();
  if (settings.classes == 0) throw Error("num_class is 0; give the number of classes");
  settings.object_scale = param.object_scale();
  settings.no_object_scale = param.noobject_scale();
  settings.class_scale = param.class_scale();
  settings.coordinate_scale = param.coord_scale();
  settings.threshold = param.thresh();
  settings.squared = true;
  settings.softmax = param.softmax() != 0;
  settings.rescores = param.rescore() != 0;
  settings.by_shape = param.bias_match() != 0;
  return settings;
}

class RegionLossLayer : public GridLossLayer {
 public:
  explicit RegionLossLayer(const LayerInit& init)
      : GridLossLayer(init, settings_of(init.param.region_loss_param())) {}
};

}  // namespace

void register_region_loss(Registry& registry) {
  add_two_sided<RegionLossLayer>(registry, "RegionLoss");
}

}  // namespace crema
