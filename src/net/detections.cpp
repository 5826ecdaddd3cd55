// Checks what a detection layer reads against the layers that made it, where the shape alone does
// not tell: confidences of rows of another number of classes, predictions in another order than
// that of the prior boxes, detections of more classes than are evaluated.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

const Node* producer_of(const Plan& plan, ValueId value) {
  const NodeId producer = plan.value(value).producer;
  return producer.valid() ? &plan.node(producer) : nullptr;
}

/// Error unless the Softmax was taken over the classes of each prior box.
void check_softmax(const Plan& plan, const Node& softmax, const std::string& confidences,
                   int64_t classes) {
  const Value& rows = plan.value(softmax.bottoms[0]);
  const Shape& shape = plan.blob(softmax.bottoms[0]).shape();
  const int axis = shape.canonical_axis(softmax.layer->param().softmax_param().axis());
  if (shape[axis] == classes && shape.count(axis + 1) == 1) return;
  const Node* reshape = producer_of(plan, softmax.bottoms[0]);
  const bool reshapes = reshape != nullptr && reshape->layer->type() == "Reshape";
  if (shape.count(axis + 1) != 1)
    throw Error("the confidences '", confidences,
                "' have the classes of a prior box one behind the other, but ", named(softmax),
                " has them along axis ", axis, " of '", rows.name, "' (", shape.str(),
                "); put Permute before it, or take the softmax ", "of rows of ", classes);
  throw Error("the confidences '", confidences, "' are of ", classes,
              " classes (num_classes), but ", named(softmax), " takes them for rows of ",
              shape[axis], ", the last axis of '", rows.name, "' (", shape.str(), "); ",
              reshapes ? text("write dim: ", classes, " in the shape of ", named(*reshape))
                       : text("give it rows of ", classes),
              ", or correct num_classes");
}

/// Follows layers that change no order of values.
void check_confidences(const Plan& plan, ValueId value, const std::string& confidences,
                       int64_t classes) {
  const Node* node = producer_of(plan, value);
  if (node == nullptr) return;
  const std::string& type = node->layer->type();
  if (type == "Softmax") check_softmax(plan, *node, confidences, classes);
  if (type != "Flatten" && type != "Reshape" && type != "Concat") return;
  for (const ValueId bottom : node->bottoms) check_confidences(plan, bottom, confidences, classes);
}

/// Error if locations are the probabilities of a Softmax: the bottoms have changed places, which
/// shapes do not tell with four classes.
void check_locations(const Plan& plan, ValueId value, const std::string& locations) {
  const Node* node = producer_of(plan, value);
  if (node == nullptr) return;
  const std::string& type = node->layer->type();
  if (type == "Softmax")
    throw Error("the locations '", locations, "' are the probabilities of ", named(*node),
                "; the bottoms are locations, confidences and prior boxes, in this order");
  if (type != "Flatten" && type != "Reshape" && type != "Concat") return;
  for (const ValueId bottom : node->bottoms) check_locations(plan, bottom, locations);
}

/// Error if predictions come from a convolution without a Permute in between: the values of a prior
/// box are then as far apart as a map is large, though there are as many.
void check_order(const Plan& plan, ValueId value, const std::string& predictions) {
  const Node* node = producer_of(plan, value);
  if (node == nullptr) return;
  const std::string& type = node->layer->type();
  const Shape& shape = plan.blob(value).shape();
  if (type == "Convolution" && shape.rank() == 4 && shape[1] > 1 && shape.count(2) > 1)
    throw Error("the predictions '", predictions,
                "' have the values of a prior box one behind the other, but ", named(*node),
                " has a map for each (", shape.str(),
                "); put Permute (order: 0 order: 2 order: 3 order: 1) behind it");
  constexpr std::string_view kPassing[] = {"Flatten", "Reshape", "Concat", "Softmax", "Sigmoid"};
  if (std::ranges::find(kPassing, type) == std::end(kPassing)) return;
  for (const ValueId bottom : node->bottoms) check_order(plan, bottom, predictions);
}

/// Error if the layer that made the detections gives labels that are not evaluated.
void check_evaluated(const Plan& plan, const Node& node) {
  const Node* maker = producer_of(plan, node.bottoms[0]);
  if (maker == nullptr) return;
  const LayerParameter& from = maker->layer->param();
  const std::string& type = maker->layer->type();
  int64_t labels = 0;
  if (type == "DetectionOutput") labels = from.detection_output_param().num_classes();
  // Their classes have no background, which is label 0.
  if (type == "RegionDetectionOutput")
    labels = int64_t{from.region_detection_output_param().num_classes()} + 1;
  if (type == "Yolov3DetectionOutput")
    labels = int64_t{from.yolov3_detection_output_param().num_classes()} + 1;
  const int64_t classes = node.layer->param().detection_evaluate_param().num_classes();
  if (labels <= classes) return;
  throw Error("num_classes is ", classes, ", but ", named(*maker), " gives '",
              node.layer->param().bottom(0), "' labels up to ", labels - 1,
              "; say num_classes: ", labels,
              type == "DetectionOutput" ? "" : ", with the background", ", or correct its");
}

}  // namespace

void check_detections(const Plan& plan) {
  for (const Node& node : plan.graph->nodes) {
    const std::string& type = node.layer->type();
    in_node(node, [&] {
      if (type == "DetectionOutput") {
        check_locations(plan, node.bottoms[0], node.layer->param().bottom(0));
        check_confidences(plan, node.bottoms[1], node.layer->param().bottom(1),
                          node.layer->param().detection_output_param().num_classes());
      }
      for (size_t i = 0; i < 2 && (type == "DetectionOutput" || type == "MultiBoxLoss"); ++i)
        check_order(plan, node.bottoms[i], node.layer->param().bottom(static_cast<int>(i)));
      if (type == "DetectionEvaluate") check_evaluated(plan, node);
    });
  }
}

}  // namespace crema
