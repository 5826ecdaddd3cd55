// Yolov3DetectionOutput: boxes from the predictions of all scales of YOLO v3. See README.md.
#include "layers/region_detection_output/grid_detection.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

GridDetectionSettings settings_of(const Yolov3DetectionOutputParameter& param) {
  GridDetectionSettings settings;
  const int groups = static_cast<int>(param.mask_group_num());
  const int each = static_cast<int>(param.num_box());
  if (groups == 0 || each == 0)
    throw Error("mask_group_num ", groups, " and num_box ", each,
                " leave no boxes; give the number of bottoms and of anchor boxes of each");
  if (param.anchors_scale_size() != groups)
    throw Error("anchors_scale has ", param.anchors_scale_size(), " numbers for the ", groups,
                " bottoms of mask_group_num; give the pixels that a cell of each has");
  if (param.mask_size() != groups * each)
    throw Error("mask has ", param.mask_size(), " numbers; ", groups, " bottoms with ", each,
                " anchor boxes each need ", groups * each);
  for (int group = 0; group < groups; ++group) {
    const uint32_t scale = param.anchors_scale(group);
    if (scale == 0)
      throw Error("anchors_scale of bottom ", group,
                  " is 0; give the pixels of the image that a cell has");
    const std::vector<GridAnchor> all = grid_anchors(
        {param.biases().data(), size_t(param.biases_size())}, static_cast<double>(scale));
    auto& own = settings.anchors.emplace_back();
    for (int i = 0; i < each; ++i) {
      const uint32_t number = param.mask(group * each + i);
      if (number >= all.size())
        throw Error("mask names anchor box ", number, ", but biases has ", all.size(),
                    "; they are numbered from 0 on");
      own.push_back(all[number]);
    }
  }
  settings.classes = param.num_classes();
  settings.least = param.confidence_threshold();
  settings.suppression.threshold = param.nms_threshold();
  return settings;
}

class Yolov3DetectionOutputLayer : public GridDetectionLayer {
 public:
  explicit Yolov3DetectionOutputLayer(const LayerInit& init)
      : GridDetectionLayer(init, settings_of(init.param.yolov3_detection_output_param())) {}
};

}  // namespace

void register_yolov3_detection_output(Registry& registry) {
  add_two_sided<Yolov3DetectionOutputLayer>(registry, "Yolov3DetectionOutput");
}

}  // namespace crema
