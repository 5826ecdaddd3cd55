// Layers that stay what they are: as operators of the domain "crema", or, where a model of ONNX was
// imported, as the operator that they were.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "model/text_format.hpp"
#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// The values of the field as an attribute: a list where it is repeated.
AttributeValue attribute_of(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
  for (int i = 0; i < count; ++i) {
    const auto get = [&](auto one, auto of_several) {
      return field.is_repeated() ? (reflection.*of_several)(message, &field, i)
                                 : (reflection.*one)(message, &field);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        ints.push_back(get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? 1 : 0);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        ints.push_back(get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        ints.push_back(get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        ints.push_back(get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        ints.push_back(
            static_cast<int64_t>(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64)));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        floats.push_back(
            static_cast<double>(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat)));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        floats.push_back(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        strings.push_back(get(&Reflection::GetString, &Reflection::GetRepeatedString));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        strings.push_back(get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        strings.push_back(prototxt_of(field.is_repeated()
                                          ? reflection.GetRepeatedMessage(message, &field, i)
                                          : reflection.GetMessage(message, &field)));
        break;
    }
  }
  if (!field.is_repeated()) {
    if (!ints.empty()) return ints[0];
    if (!floats.empty()) return floats[0];
    return strings.empty() ? std::string() : strings[0];
  }
  if (!ints.empty()) return ints;
  if (!floats.empty()) return floats;
  return strings;
}

/// Settings that say how a net trains, reads data or writes files.
bool is_for_training(const std::string& field) {
  return field == "transform_param" || field == "loss_param" || field == "save_output_param" ||
         field.ends_with("filler");
}

/// All set fields of the layer's settings.
Attributes settings_of(const LayerParameter& param) {
  Attributes attributes;
  std::vector<const FieldDescriptor*> fields;
  param.GetReflection()->ListFields(param, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated() ||
        is_for_training(field->name()))
      continue;
    if (field->is_extension())
      throw Error("has settings of a plug-in, which no reader of the model knows");
    const Message& settings = param.GetReflection()->GetMessage(param, field);
    std::vector<const FieldDescriptor*> own;
    settings.GetReflection()->ListFields(settings, &own);
    for (const FieldDescriptor* one : own) {
      if (!is_for_training(one->name()))
        attributes.emplace_back(one->name(), attribute_of(settings, *one));
    }
  }
  return attributes;
}

constexpr int kMostEnds = 63;  // the greatest number of an input or output

/// Operators that say the same in all opsets from 13 to 23, attributes of newer ones aside.
bool is_the_same_in_all(const std::string& op) {
  static constexpr std::array kOperators = {"Abs",
                                            "Acos",
                                            "Acosh",
                                            "Add",
                                            "And",
                                            "ArgMax",
                                            "ArgMin",
                                            "Asin",
                                            "Asinh",
                                            "Atan",
                                            "Atanh",
                                            "Cast",
                                            "Ceil",
                                            "Compress",
                                            "Concat",
                                            "Cos",
                                            "Cosh",
                                            "CumSum",
                                            "Div",
                                            "Equal",
                                            "Erf",
                                            "Exp",
                                            "Expand",
                                            "EyeLike",
                                            "Flatten",
                                            "Floor",
                                            "Gather",
                                            "GatherElements",
                                            "GatherND",
                                            "Greater",
                                            "GreaterOrEqual",
                                            "Identity",
                                            "IsInf",
                                            "IsNaN",
                                            "Less",
                                            "LessOrEqual",
                                            "Log",
                                            "MatMul",
                                            "Max",
                                            "Min",
                                            "Mod",
                                            "Mul",
                                            "Neg",
                                            "NonMaxSuppression",
                                            "NonZero",
                                            "Not",
                                            "OneHot",
                                            "Or",
                                            "Pow",
                                            "Range",
                                            "Reciprocal",
                                            "Reshape",
                                            "Round",
                                            "ScatterElements",
                                            "ScatterND",
                                            "Shape",
                                            "Sign",
                                            "Sin",
                                            "Sinh",
                                            "Size",
                                            "Slice",
                                            "Softplus",
                                            "Sqrt",
                                            "Squeeze",
                                            "Sub",
                                            "Sum",
                                            "Tan",
                                            "Tanh",
                                            "Tile",
                                            "TopK",
                                            "Transpose",
                                            "Trilu",
                                            "Unique",
                                            "Unsqueeze",
                                            "Where",
                                            "Xor"};
  return std::find(kOperators.begin(), kOperators.end(), op) != kOperators.end();
}

/// The first opset that has the operator with these attributes, of those that are the same in all.
int first_opset_of(const OnnxOperatorParameter& s) {
  const auto attribute = [&](std::string_view name) -> const AttributeProto* {
    for (const AttributeProto& each : s.attribute()) {
      if (each.name() == name) return &each;
    }
    return nullptr;
  };
  const std::string& op = s.op_type();
  if (op == "Trilu") return 14;
  if (op == "Reshape" && attribute("allowzero") != nullptr) return 14;
  if (op == "Shape" && (attribute("start") != nullptr || attribute("end") != nullptr)) return 15;
  if (op == "Cast" && attribute("saturate") != nullptr) return 19;
  if (op.starts_with("Scatter")) {
    const AttributeProto* const reduction = attribute("reduction");
    if (reduction == nullptr) return 13;
    return reduction->s() == "max" || reduction->s() == "min" ? 18 : 16;
  }
  return 13;
}

void export_onnx_operator(const ExportedLayer& layer, GraphBuilder& graph) {
  const OnnxOperatorParameter& s = layer.param().onnx_operator_param();
  const bool is_onnx = s.domain().empty() || s.domain() == "ai.onnx";
  if (is_onnx && s.opset() != graph.opset() &&
      !(s.opset() >= 13 && is_the_same_in_all(s.op_type()) && graph.opset() >= first_opset_of(s)))
    throw Error("is the operator ", s.op_type(), " of opset ", s.opset(),
                ", which may say something else in opset ", graph.opset(), "; export opset ",
                s.opset());
  const auto type_of = [](const auto& types, size_t i) {
    return static_cast<int>(i) < types.size() ? types.Get(static_cast<int>(i))
                                              : static_cast<int>(TensorProto::FLOAT);
  };
  Names bottoms;
  for (size_t i = 0; i < layer.bottoms(); ++i) {
    const auto type = static_cast<ElementType>(type_of(s.bottom_type(), i));
    bottoms.push_back(type == TensorProto::FLOAT ? layer.input(i)
                                                 : graph.cast(layer.input(i), type));
  }
  Names inputs = bottoms;
  if (s.input_size() > 0) {
    inputs.clear();
    for (const int bottom : s.input()) {
      if (bottom >= static_cast<int>(bottoms.size()))
        throw Error("input ", bottom, " of ", s.op_type(), " is no bottom of the layer");
      inputs.push_back(bottom < 0 ? std::string() : bottoms[static_cast<size_t>(bottom)]);
    }
  }
  for (const OnnxOperatorParameter::Constant& constant : s.constant()) {
    if (constant.input() < 0 || constant.input() > kMostEnds)
      throw Error(s.op_type(), " has no input ", constant.input());
    const auto place = static_cast<size_t>(constant.input());
    if (inputs.size() <= place) inputs.resize(place + 1);
    inputs[place] = graph.constant(array_of(constant.value()));
  }
  // Outputs that no top stands for are left out, or have names that nobody reads.
  Names outputs, made(layer.tops());
  for (size_t i = 0; i < layer.tops(); ++i) {
    const int at =
        static_cast<int>(i) < s.output_size() ? s.output(static_cast<int>(i)) : static_cast<int>(i);
    if (at < 0 || at > kMostEnds) throw Error(s.op_type(), " has no output ", at);
    while (static_cast<int>(outputs.size()) <= at) outputs.push_back(graph.new_name("unread"));
    const bool is_float = type_of(s.top_type(), i) == TensorProto::FLOAT;
    made[i] = is_float ? layer.output(i) : graph.new_name(layer.output(i) + "_value");
    outputs[static_cast<size_t>(at)] = made[i];
  }
  graph.add_foreign(s.op_type(), s.domain(), inputs, outputs, s.attribute());
  for (size_t i = 0; i < layer.tops(); ++i) {
    if (made[i] != layer.output(i)) graph.cast(made[i], TensorProto::FLOAT, layer.output(i));
  }
}

}  // namespace

void export_custom(const ExportedLayer& layer, GraphBuilder& graph) {
  Names inputs, outputs;
  for (size_t i = 0; i < layer.bottoms(); ++i) inputs.push_back(layer.input(i));
  for (size_t i = 0; i < layer.weights(); ++i)
    inputs.push_back(graph.constant(layer.weight(i), text(i)));
  for (size_t i = 0; i < layer.tops(); ++i) outputs.push_back(layer.output(i));
  graph.add_custom(layer.param().type(), inputs, outputs, settings_of(layer.param()));
}

void add_custom_exporters(ExporterTable& table) {
  table.add("MultiStageMeanfield", export_custom);
  table.add("OnnxOperator", export_onnx_operator);
  table.add("PSROIPooling", export_custom);
}

}  // namespace crema::onnx
