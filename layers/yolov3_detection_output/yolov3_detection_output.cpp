// Yolov3DetectionOutput: boxes from the predictions of all scales of YOLO v3. See README.md.
#include <span>

#include "core/checked.hpp"
#include "layers/region_detection_output/grid_detection.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

GridDetectionSettings settings_of(const Yolov3DetectionOutputParameter& param) {
  GridDetectionSettings settings;
  const int64_t groups = param.mask_group_num(), each = param.num_box();
  if (groups == 0 || each == 0)
    throw Error("mask_group_num ", groups, " and num_box ", each,
                " leave no boxes; give the number of bottoms and of anchor boxes of each");
  if (param.anchors_scale_size() != groups)
    throw Error("anchors_scale has ", param.anchors_scale_size(), " numbers for the ", groups,
                " bottoms of mask_group_num; give the pixels that a cell of each has");
  const int64_t named = checked_multiply(groups, each, "mask_group_num and num_box");
  if (param.mask_size() != named)
    throw Error("mask has ", param.mask_size(), " numbers; ", groups, " bottoms with ", each,
                " anchor boxes each need ", named);
  for (int64_t group = 0; group < groups; ++group) {
    const uint32_t scale = param.anchors_scale(static_cast<int>(group));
    if (scale == 0)
      throw Error("anchors_scale of bottom ", group,
                  " is 0; give the pixels of the image that a cell has");
    const std::vector<GridAnchor> all = grid_anchors(
        {param.biases().data(), size_t(param.biases_size())}, static_cast<double>(scale));
    auto& own = settings.anchors.emplace_back();
    const std::span mask(param.mask().data() + group * each, static_cast<size_t>(each));
    for (const int64_t number : anchors_of_mask(mask, all.size()))
      own.push_back(all[static_cast<size_t>(number)]);
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
