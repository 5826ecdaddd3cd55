// RegionDetectionOutput: boxes from the predictions of YOLO v2. See README.md.
#include "layers/region_detection_output/grid_detection.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

GridDetectionSettings settings_of(const RegionDetectionOutputParameter& param) {
  if (param.coords() != 4)
    throw Error("coords ", param.coords(), " is not offered; a box has 4: x, y, width, height");
  GridDetectionSettings settings;
  settings.anchors = {grid_anchors({param.biases().data(), size_t(param.biases_size())}, 1)};
  if (settings.anchors[0].size() != param.num_box())
    throw Error("num_box is ", param.num_box(), ", but biases has width and height of ",
                settings.anchors[0].size(), " anchor boxes; give both for each");
  settings.classes = param.num_classes();
  settings.softmax = true;
  settings.least = param.confidence_threshold();
  settings.suppression.threshold = param.nms_threshold();
  return settings;
}

class RegionDetectionOutputLayer : public GridDetectionLayer {
 public:
  explicit RegionDetectionOutputLayer(const LayerInit& init)
      : GridDetectionLayer(init, settings_of(init.param.region_detection_output_param())) {}
};

}  // namespace

void register_region_detection_output(Registry& registry) {
  add_two_sided<RegionDetectionOutputLayer>(registry, "RegionDetectionOutput");
}

}  // namespace crema
