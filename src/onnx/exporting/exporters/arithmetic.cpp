// Layers that combine several blobs element by element, and scales and shifts of channels.
#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

void export_eltwise(const ExportedLayer& layer, GraphBuilder& graph) {
  const EltwiseParameter& settings = layer.param().eltwise_param();
  Names inputs;
  for (size_t i = 0; i < layer.bottoms(); ++i) inputs.push_back(layer.input(i));
  if (settings.operation() == EltwiseParameter::MAX) {
    graph.add("Max", inputs, {}, layer.output());
    return;
  }
  if (settings.operation() == EltwiseParameter::PROD) {
    std::string product = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) product = graph.add("Mul", {product, inputs[i]});
    return finish(layer, graph, product);
  }
  const auto factor = [&](size_t i) {
    return settings.coeff_size() == 0 ? 1.0
                                      : static_cast<double>(settings.coeff(static_cast<int>(i)));
  };
  if (inputs.size() == 2 && factor(0) == 1 && factor(1) == -1) {
    graph.add("Sub", inputs, {}, layer.output());
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = times(graph, inputs[i], factor(i));
  graph.add(inputs.size() == 2 ? "Add" : "Sum", inputs, {}, layer.output());
}

void export_arithmetic(const ExportedLayer& layer, GraphBuilder& graph) {
  const char* op = "Add";
  switch (layer.param().arithmetic_param().operation()) {
    case ArithmeticParameter::ADD:
      op = "Add";
      break;
    case ArithmeticParameter::SUB:
      op = "Sub";
      break;
    case ArithmeticParameter::MUL:
      op = "Mul";
      break;
    case ArithmeticParameter::DIV:
      op = "Div";
      break;
    case ArithmeticParameter::POW:
      op = "Pow";
      break;
    case ArithmeticParameter::MIN:
      op = "Min";
      break;
    case ArithmeticParameter::MAX:
      op = "Max";
      break;
  }
  graph.add(op, {layer.input(0), layer.input(1)}, {}, layer.output());
}

void export_where(const ExportedLayer& layer, GraphBuilder& graph) {
  const std::string condition = graph.cast(layer.input(0), TensorProto::BOOL);
  graph.add("Where", {condition, layer.input(1), layer.input(2)}, {}, layer.output());
}

/// y = s x + z with one s for each channel of each sample.
void export_axpy(const ExportedLayer& layer, GraphBuilder& graph) {
  const int rank = layer.bottom(1).rank(), own = layer.bottom(0).rank();
  std::string scale = layer.input(0);
  if (own > 2) scale = graph.squeeze(scale, counted(own - 2, 2));
  if (rank > 2) scale = graph.unsqueeze(scale, counted(rank - 2, 2));
  const std::string scaled = graph.add("Mul", {layer.input(1), scale});
  graph.add("Add", {scaled, layer.input(2)}, {}, layer.output());
}

/// The parameter, whose axes are those of the bottom from `axis` on, so that it broadcasts.
std::string broadcast_weight(const ExportedLayer& layer, GraphBuilder& graph, size_t i, int axis,
                             std::string_view hint) {
  const Shape& shape = layer.weight_shape(i);
  std::vector<int64_t> dims = shape.dims();
  const int behind = layer.bottom().rank() - axis - shape.rank();
  dims.insert(dims.end(), static_cast<size_t>(std::max(behind, 0)), 1);
  return graph.constant(layer.weight(i).reshaped(Shape(std::move(dims))), hint);
}

/// Bottom 1, likewise.
std::string broadcast_bottom(const ExportedLayer& layer, GraphBuilder& graph, int axis) {
  const int own = layer.bottom(1).rank(), behind = layer.bottom(0).rank() - axis - own;
  if (behind <= 0) return layer.input(1);
  return graph.unsqueeze(layer.input(1), counted(behind, own));
}

int axis_of(const ExportedLayer& layer, int axis) {
  // A scalar bottom has the place behind its last axis alone.
  return layer.bottom().rank() == 0 ? 0 : layer.bottom().canonical_axis(axis);
}

void export_scale(const ExportedLayer& layer, GraphBuilder& graph) {
  const ScaleParameter& settings = layer.param().scale_param();
  const int axis = axis_of(layer, settings.axis());
  const bool learned = layer.bottoms() == 1;
  const std::string factor = learned ? broadcast_weight(layer, graph, 0, axis, "weight")
                                     : broadcast_bottom(layer, graph, axis);
  std::string y = graph.add("Mul", {layer.input(), factor});
  if (settings.bias_term())
    y = graph.add("Add", {y, broadcast_weight(layer, graph, learned ? 1 : 0, axis, "bias")});
  finish(layer, graph, y);
}

void export_bias(const ExportedLayer& layer, GraphBuilder& graph) {
  const int axis = axis_of(layer, layer.param().bias_param().axis());
  const std::string bias = layer.bottoms() == 1 ? broadcast_weight(layer, graph, 0, axis, "bias")
                                                : broadcast_bottom(layer, graph, axis);
  graph.add("Add", {layer.input(), bias}, {}, layer.output());
}

}  // namespace

void add_arithmetic_exporters(ExporterTable& table) {
  table.add("Arithmetic", export_arithmetic);
  table.add("Axpy", export_axpy);
  table.add("Bias", export_bias);
  table.add("Eltwise", export_eltwise);
  table.add("Scale", export_scale);
  table.add("Where", export_where);
}

}  // namespace crema::onnx
