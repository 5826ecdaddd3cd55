#include "onnx/importing/layer_node.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "crema/context.hpp"
#include "crema/registry.hpp"
#include "crema/run_state.hpp"
#include "model/text_format.hpp"

namespace crema::onnx {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Types whose settings are not called after them.
const FieldDescriptor* settings_field(const std::string& type) {
  static const std::map<std::string, std::string, std::less<>> kOthers = {
      {"CTCGreedyDecoder", "ctc_decoder_param"},
      {"ConvolutionDepthwise", "convolution_param"},
      {"CtcLoss", "ctc_loss_param"},
      {"Deconvolution", "convolution_param"},
      {"DepthwiseConvolution", "convolution_param"},
      {"GRU", "recurrent_param"},
      {"Im2col", "convolution_param"},
      {"LSTM", "recurrent_param"},
      {"Local", "local_param"},
      {"Noise", "noise_param"},
      {"PriorBoxClustered", "prior_box_param"},
      {"RNN", "recurrent_param"},
      {"Resize", "resize_param"},
      {"SPP", "spp_param"},
      {"SoftmaxWithLoss", "softmax_param"},
  };
  const auto* const layer = LayerParameter::descriptor();
  const auto found = kOthers.find(type);
  if (found != kOthers.end()) return layer->FindFieldByName(found->second);
  for (int i = 0; i < layer->field_count(); ++i) {
    const FieldDescriptor* const field = layer->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated() &&
        field->message_type()->name() == type + "Parameter")
      return field;
  }
  return nullptr;
}

[[noreturn]] void refuse_field(const AttributeProto& attribute, const FieldDescriptor& field) {
  throw Error("attribute '", attribute.name(), "' is of type ",
              AttributeProto::AttributeType_Name(attribute.type()), ", which does not fit field ",
              field.full_name(), " of type ", field.type_name());
}

// One number of the attribute as a value of the field.
void put_number(Message& message, const FieldDescriptor& field, double number, int64_t integer,
                bool is_integer) {
  const auto* const reflection = message.GetReflection();
  const auto put = [&](auto set, auto add, auto value) {
    if (field.is_repeated()) {
      (reflection->*add)(&message, &field, value);
    } else {
      (reflection->*set)(&message, &field, value);
    }
  };
  using Reflection = google::protobuf::Reflection;
  const auto in_range = [&](int64_t low, int64_t high) {
    if (!is_integer || integer < low || integer > high)
      throw Error("attribute '", field.name(), "': ", is_integer ? text(integer) : text(number),
                  " is out of the range of field ", field.full_name());
    return integer;
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      put(&Reflection::SetInt32, &Reflection::AddInt32,
          static_cast<int32_t>(
              in_range(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max())));
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      put(&Reflection::SetUInt32, &Reflection::AddUInt32,
          static_cast<uint32_t>(in_range(0, std::numeric_limits<uint32_t>::max())));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      put(&Reflection::SetInt64, &Reflection::AddInt64,
          in_range(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      put(&Reflection::SetUInt64, &Reflection::AddUInt64,
          static_cast<uint64_t>(in_range(0, std::numeric_limits<int64_t>::max())));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      put(&Reflection::SetBool, &Reflection::AddBool, in_range(0, 1) == 1);
      return;
    case FieldDescriptor::CPPTYPE_FLOAT:
      put(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(number));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      put(&Reflection::SetDouble, &Reflection::AddDouble, number);
      return;
    default:
      throw Error("attribute '", field.name(), "' is a number, and field ", field.full_name(),
                  " is none");
  }
}

void put_string(Message& message, const FieldDescriptor& field, const std::string& value) {
  const auto* const reflection = message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    if (field.is_repeated()) {
      reflection->AddString(&message, &field, value);
    } else {
      reflection->SetString(&message, &field, value);
    }
    return;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const auto* const named = field.enum_type()->FindValueByName(value);
    if (named == nullptr)
      throw Error("attribute '", field.name(), "': '", value, "' is no value of ",
                  field.enum_type()->full_name());
    if (field.is_repeated()) {
      reflection->AddEnum(&message, &field, named);
    } else {
      reflection->SetEnum(&message, &field, named);
    }
    return;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    Message* const nested = field.is_repeated() ? reflection->AddMessage(&message, &field)
                                                : reflection->MutableMessage(&message, &field);
    parse_text_proto(value, text("attribute '", field.name(), "'"), *nested);
    return;
  }
  throw Error("attribute '", field.name(), "' is a string, and field ", field.full_name(),
              " is none");
}

void put_attribute(Message& message, const FieldDescriptor& field,
                   const AttributeProto& attribute) {
  const bool is_list = attribute.type() == AttributeProto::INTS ||
                       attribute.type() == AttributeProto::FLOATS ||
                       attribute.type() == AttributeProto::STRINGS;
  if (is_list && !field.is_repeated()) refuse_field(attribute, field);
  switch (attribute.type()) {
    case AttributeProto::INT:
      return put_number(message, field, static_cast<double>(attribute.i()), attribute.i(), true);
    case AttributeProto::FLOAT:
      return put_number(message, field, attribute.f(), 0, false);
    case AttributeProto::INTS:
      for (const int64_t value : attribute.ints())
        put_number(message, field, static_cast<double>(value), value, true);
      return;
    case AttributeProto::FLOATS:
      for (const float value : attribute.floats()) put_number(message, field, value, 0, false);
      return;
    case AttributeProto::STRING:
      return put_string(message, field, attribute.s());
    case AttributeProto::STRINGS:
      for (const std::string& value : attribute.strings()) put_string(message, field, value);
      return;
    default:
      refuse_field(attribute, field);
  }
}

bool names_a_file(const std::string& field) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "source",       "class_names", "root_folder",     "file_name",
      "softmax_tree", "class_map",   "output_directory"};
  return std::ranges::find(kNames, field) != kNames.end() || field.ends_with("_file");
}

// The first field that names a file or folder, at any depth; null if there is none.
const FieldDescriptor* field_of_file(const Message& settings) {
  const auto* const reflection = settings.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(settings, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && names_a_file(field->name()))
      return field;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(settings, field) : 1;
    for (int i = 0; i < count; ++i) {
      const Message& inner = field->is_repeated()
                                 ? reflection->GetRepeatedMessage(settings, field, i)
                                 : reflection->GetMessage(settings, field);
      if (const FieldDescriptor* const found = field_of_file(inner)) return found;
    }
  }
  return nullptr;
}

// A model may compute; a file from elsewhere must not read or write other files, look through a
// camera and run programs.
void refuse_effects(const LayerParameter& layer) {
  if (layer.type() == "Python")
    throw Error("a layer Python of a model of ONNX must not run a program; write it in a prototxt");
  if (layer.type() == "VideoData")
    throw Error("a layer VideoData of a model of ONNX must not open a camera or a film; write it ",
                "in a prototxt");
  const FieldDescriptor* const field = field_of_file(layer);
  if (field != nullptr || layer.type() == "HDF5Output" ||
      layer.detection_output_param().has_save_output_param())
    throw Error("a layer ", layer.type(), " of a model of ONNX must not read and write files",
                field == nullptr ? std::string() : text(", as its ", field->name(), " says"),
                "; write it in a prototxt");
}

bool is_known_type(ElementType type) { return type != TensorProto::UNDEFINED; }

}  // namespace

size_t bottoms_of(const Node& node) {
  if (node.bottoms) return *node.bottoms;
  size_t bottoms = node.inputs.size();
  while (bottoms > 0 && node.inputs[bottoms - 1] != nullptr &&
         node.inputs[bottoms - 1]->is_constant())
    --bottoms;
  return bottoms;
}

LayerParameter layer_of(const Node& node) {
  LayerParameter layer;
  layer.set_type(node.op());
  const FieldDescriptor* const settings = settings_field(node.op());
  for (const AttributeProto& attribute : node.message.attribute()) {
    const auto* const own =
        settings == nullptr ? nullptr : settings->message_type()->FindFieldByName(attribute.name());
    if (own != nullptr) {
      Message* const message = layer.GetReflection()->MutableMessage(&layer, settings);
      put_attribute(*message, *own, attribute);
      continue;
    }
    const auto* const outer = LayerParameter::descriptor()->FindFieldByName(attribute.name());
    if (outer == nullptr || outer->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        outer->is_repeated() || attribute.type() != AttributeProto::STRING)
      throw Error("attribute '", attribute.name(), "' is no field of the settings of layers ",
                  node.op());
    put_attribute(layer, *outer, attribute);
  }
  refuse_effects(layer);
  return layer;
}

void infer_layer_node(Graph& graph, Node& node) {
  if (!Registry::instance().has(node.op()))
    throw Error("there are no layers of type '", node.op(), "'",
                did_you_mean(node.op(), Registry::instance().types()));
  bool is_known = true;
  for (Value* output : node.outputs) {
    if (output == nullptr || is_known_type(output->type())) continue;
    const auto found = graph.stated.find(output->name);
    if (found != graph.stated.end()) output->known = found->second;
    is_known = is_known && is_known_type(output->type());
  }
  if (is_known) return;

  LayerParameter param = layer_of(node);
  param.set_name(described(node));
  const size_t bottoms = bottoms_of(node);
  std::vector<Blob> blobs(bottoms + node.outputs.size());
  std::vector<Blob*> bottom, top;
  for (size_t i = 0; i < bottoms; ++i) {
    if (node.inputs[i] == nullptr)
      throw Error("bottom ", i, " of a layer ", node.op(), " is not given");
    blobs[i].name = node.inputs[i]->name;
    blobs[i].reshape(node.inputs[i]->shape());
    param.add_bottom(blobs[i].name);
    bottom.push_back(&blobs[i]);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Blob& blob = blobs[bottoms + i];
    blob.name = text("top ", i);
    param.add_top(blob.name);
    top.push_back(&blob);
  }
  Context context;
  const RunState run;
  const auto layer = Registry::instance().make(
      {.param = param, .context = context, .run = run, .phase = Phase::test, .trains = false});
  const Arity arity = layer->arity();
  const auto out_of = [](size_t count, int low, int high) {
    return count < static_cast<size_t>(low) || (high >= 0 && count > static_cast<size_t>(high));
  };
  if (out_of(bottoms, arity.min_bottoms, arity.max_bottoms) ||
      out_of(top.size(), arity.min_tops, arity.max_tops))
    throw Error("a layer ", node.op(), " does not take ", bottoms, " bottoms and ", top.size(),
                " tops");
  layer->setup(bottom, top);
  layer->reshape(bottom, top);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value* const output = node.outputs[i];
    if (output == nullptr) continue;
    output->known.type = bottoms > 0 ? node.inputs[0]->type() : TensorProto::FLOAT;
    if (!is_float(output->known.type)) output->known.type = TensorProto::FLOAT;
    output->known.shape = top[i]->shape();
    output->known.is_bound = layer->top_shapes() == TopShapes::from_values;
  }
}

}  // namespace crema::onnx
