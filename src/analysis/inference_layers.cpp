#include "analysis/inference_layers.hpp"

#include <google/protobuf/message.h>

#include <algorithm>
#include <set>

#include "analysis/layer_graph.hpp"
#include "model/partial_copy.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {

void clear_fillers(google::protobuf::Message& message) {
  const google::protobuf::Reflection& values = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  values.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE ||
        field->is_repeated())
      continue;
    if (field->message_type() != FillerParameter::descriptor()) {
      clear_fillers(*values.MutableMessage(&message, field));
      continue;
    }
    const auto& filler = static_cast<const FillerParameter&>(values.GetMessage(message, field));
    if (filler.type() != "bilinear") values.ClearField(&message, field);
  }
}

NetParameter layers_of_inference(const NetParameter& net, const NetOptions& options,
                                 const NetParameter& training) {
  NetParameter layers = layers_of(net, options);
  std::set<std::string> made, missing;
  for (const LayerParameter& layer : layers.layer()) {
    for (const std::string& bottom : layer.bottom()) {
      if (made.count(bottom) == 0) missing.insert(bottom);
    }
    made.insert(layer.top().begin(), layer.top().end());
  }
  if (missing.empty()) return layers;
  NetParameter whole;
  copy_without(layers, {NetParameter::kLayerFieldNumber}, whole);
  for (const LayerParameter& layer : training.layer()) {
    const bool is_missing = std::ranges::any_of(
        layer.top(), [&](const std::string& top) { return missing.count(top) > 0; });
    if (is_missing && is_source(layer)) *whole.add_layer() = layer;
  }
  for (const LayerParameter& layer : layers.layer()) *whole.add_layer() = layer;
  return whole;
}

}  // namespace crema
