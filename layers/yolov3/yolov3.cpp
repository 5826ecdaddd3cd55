// Yolov3: the loss of one scale of YOLO v3. See README.md.
#include "layers/region_loss/grid_loss.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

GridLossSettings settings_of(const Yolov3Parameter& param) {
  GridLossSettings settings;
  if (param.anchors_scale() == 0)
    throw Error("anchors_scale is 0; give the pixels of the image that a cell has");
  settings.anchors = grid_anchors({param.biases().data(), size_t(param.biases_size())},
                                  static_cast<double>(param.anchors_scale()));
  settings.mask =
      anchors_of_mask({param.mask().data(), size_t(param.mask_size())}, settings.anchors.size());
  if (settings.mask.size() != param.num())
    throw Error("num is ", param.num(), ", but mask has ", settings.mask.size(),
                " anchor boxes; name those that this scale predicts");
  settings.classes = param.num_class();
  if (settings.classes == 0) throw Error("num_class is 0; give the number of classes");
  settings.object_scale = param.object_scale();
  settings.no_object_scale = param.noobject_scale();
  settings.class_scale = param.class_scale();
  settings.coordinate_scale = param.coord_scale();
  settings.threshold = param.thresh();
  settings.weighs_by_size = true;
  return settings;
}

class Yolov3Layer : public GridLossLayer {
 public:
  explicit Yolov3Layer(const LayerInit& init)
      : GridLossLayer(init, settings_of(init.param.yolov3_param())) {}
};

}  // namespace

void register_yolov3(Registry& registry) { add_two_sided<Yolov3Layer>(registry, "Yolov3"); }

}  // namespace crema
