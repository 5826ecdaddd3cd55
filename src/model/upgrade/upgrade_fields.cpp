// Old fields of nets in any format.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "model/upgrade/old_layers.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kInputDims = 4;  // num, channels, height, width

void check_input_shapes(const OldNet& old) {
  const NetParameter& net = old.net;
  const int inputs = net.input_size();
  if (net.input_dim_size() != 0 && net.input_shape_size() != 0)
    throw Error("the net gives both input_dim and input_shape; keep input_shape")
        .at(old.place("input_dim"));
  if (net.input_dim_size() != 0 && net.input_dim_size() != kInputDims * inputs)
    throw Error("the net has ", inputs, " input but ", net.input_dim_size(),
                " input_dim; give four an input: num, channels, height, width")
        .at(old.place("input_dim"));
  if (net.input_shape_size() != 0 && net.input_shape_size() != inputs)
    throw Error("the net has ", inputs, " input but ", net.input_shape_size(),
                " input_shape; give one an input")
        .at(old.place("input_shape"));
}

/// "input", or a name like it that no layer has.
std::string free_name(const NetParameter& net) {
  std::string name = "input";
  const auto is_taken = [&](const LayerParameter& layer) { return layer.name() == name; };
  while (std::ranges::any_of(net.layer(), is_taken)) name += "_";
  return name;
}

std::string text_of(const Message& message, const FieldDescriptor* field) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
  return text;
}

/// Moves a field of the old settings to the field of the same name in transform_param.
void move_transform(OldNet& old, int layer, Message& settings, const std::string& where,
                    const char* name) {
  const auto* field = settings.GetDescriptor()->FindFieldByName(name);
  if (!settings.GetReflection()->HasField(settings, field)) return;
  LayerParameter& param = *old.net.mutable_layer(layer);
  TransformationParameter& transform = *param.mutable_transform_param();
  const auto* target = TransformationParameter::descriptor()->FindFieldByName(name);
  const std::string value = text_of(settings, field);
  if (transform.GetReflection()->HasField(transform, target) && text_of(transform, target) != value)
    throw Error("has ", name, " ", value, " in ", where, " and ", text_of(transform, target),
                " in transform_param; keep the one in transform_param")
        .in_layer(param.name(), param.type())
        .at(old.place(layer, where + "." + name));
  google::protobuf::TextFormat::Parser().ParseFieldValueFromString(value, target, &transform);
  settings.GetReflection()->ClearField(&settings, field);
  old.result.changes.push_back(
      text(name, " of layer '", param.name(), "' moved from ", where, " to transform_param"));
}

}  // namespace

void upgrade_inputs(OldNet& old) {
  NetParameter& net = old.net;
  const int inputs = net.input_size();
  if (inputs == 0) {
    const auto shapes = static_cast<size_t>(net.input_dim_size() + net.input_shape_size());
    if (shapes == 0) return;
    old.warn(old.place(net.input_dim_size() ? "input_dim" : "input_shape"),
             "input_dim and input_shape are left out: without `input` they have no effect");
    old.result.changes.push_back(text("shapes without `input`, ", shapes, ", were left out"));
    net.clear_input_dim();
    net.clear_input_shape();
    return;
  }
  check_input_shapes(old);
  google::protobuf::RepeatedPtrField<LayerParameter> layers;
  LayerParameter& input = *layers.Add();
  input.set_name(free_name(net));
  input.set_type("Input");
  *input.mutable_top() = net.input();
  auto& shapes = *input.mutable_input_param()->mutable_shape();
  shapes = net.input_shape();
  for (int i = 0; i < net.input_dim_size(); ++i) {
    if (i % kInputDims == 0) shapes.Add();
    shapes.rbegin()->add_dim(net.input_dim(i));
  }
  for (LayerParameter& layer : *net.mutable_layer()) *layers.Add() = std::move(layer);
  net.mutable_layer()->Swap(&layers);
  net.clear_input();
  net.clear_input_dim();
  net.clear_input_shape();
  std::vector<std::string> paths = {"input[0]"};
  paths.insert(paths.end(), old.paths.begin(), old.paths.end());
  old.paths = std::move(paths);
  old.result.changes.push_back(text("`input` became the Input layer '", net.layer(0).name(), "'"));
}

void upgrade_transforms(OldNet& old) {
  for (int i = 0; i < old.net.layer_size(); ++i) {
    LayerParameter& layer = *old.net.mutable_layer(i);
    for (const char* name : {"scale", "mean_file", "crop_size", "mirror"}) {
      if (layer.has_data_param())
        move_transform(old, i, *layer.mutable_data_param(), "data_param", name);
      if (layer.has_image_data_param())
        move_transform(old, i, *layer.mutable_image_data_param(), "image_data_param", name);
      if (layer.has_window_data_param())
        move_transform(old, i, *layer.mutable_window_data_param(), "window_data_param", name);
    }
  }
}

void upgrade_batch_norm(OldNet& old) {
  constexpr int kStatistics = 3;
  for (LayerParameter& layer : *old.net.mutable_layer()) {
    if (layer.type() != "BatchNorm" || layer.param_size() != kStatistics) continue;
    bool changed = false;
    for (ParamSpec& param : *layer.mutable_param()) {
      changed |= param.lr_mult() != 0 || param.decay_mult() != 0;
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
    if (changed)
      old.result.changes.push_back(text("the statistics of layer '", layer.name(),
                                        "' (BatchNorm) got lr_mult and decay_mult 0"));
  }
}

}  // namespace crema
