// Operators of two or more operands, element by element.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

ArithmeticParameter::Operation arithmetic_of(const std::string& op) {
  static const std::map<std::string, ArithmeticParameter::Operation, std::less<>> kOperations = {
      {"Add", ArithmeticParameter::ADD},  {"Sum", ArithmeticParameter::ADD},
      {"Mean", ArithmeticParameter::ADD}, {"Sub", ArithmeticParameter::SUB},
      {"Mul", ArithmeticParameter::MUL},  {"Div", ArithmeticParameter::DIV},
      {"Pow", ArithmeticParameter::POW},  {"Min", ArithmeticParameter::MIN},
      {"Max", ArithmeticParameter::MAX}};
  return kOperations.find(op)->second;
}

void add_arithmetic(const Node& node, LayerWriter& writer, const LayerEnd& a, const LayerEnd& b,
                    const LayerEnd& to, std::string_view step = {}) {
  writer.add(node, "Arithmetic", {a, b}, {to}, step)
      .mutable_arithmetic_param()
      ->set_operation(arithmetic_of(node.op()));
}

// Whether Eltwise computes it: a sum, difference, product or maximum of equal shapes.
bool is_eltwise(const Node& node) {
  if (node.op() == "Div" || node.op() == "Pow" || node.op() == "Min") return false;
  return std::ranges::all_of(node.inputs, [&](const Value* input) {
    return input->shape() == node.inputs[0]->shape() && !input->is_constant();
  });
}

void add_eltwise(const Node& node, LayerWriter& writer) {
  const std::vector<LayerEnd> bottoms(node.inputs.begin(), node.inputs.end());
  EltwiseParameter& settings =
      *writer.add(node, "Eltwise", bottoms, {node.output()}).mutable_eltwise_param();
  const auto count = static_cast<float>(node.inputs.size());
  settings.set_operation(EltwiseParameter::SUM);
  if (node.op() == "Mul") settings.set_operation(EltwiseParameter::PROD);
  if (node.op() == "Max") settings.set_operation(EltwiseParameter::MAX);
  if (node.op() == "Sub") {
    settings.add_coeff(1);
    settings.add_coeff(-1);
  }
  if (node.op() == "Mean") {
    for (size_t i = 0; i < node.inputs.size(); ++i) settings.add_coeff(1 / count);
  }
}

// One number for each sample and channel, as of a squeeze-and-excitation block: (N, C, 1, 1).
bool is_by_channel(const Value& x, const Value& factor, const Shape& out) {
  const Shape &shape = x.shape(), &other = factor.shape();
  return !x.is_constant() && !factor.is_constant() && shape == out && shape.rank() >= 3 &&
         other.rank() == shape.rank() && other[0] == shape[0] && other[1] == shape[1] &&
         other.count(2) == 1;
}

void add_by_channel(const Node& node, LayerWriter& writer, const Value& x, const Value& factor) {
  const std::string flat = writer.inner_blob(node, "by_channel");
  add_reshape(node, writer, factor, factor.shape(), flat,
              Shape{factor.shape()[0], factor.shape()[1]}, "by_channel");
  if (node.op() == "Mul") {
    writer.add(node, "Scale", {x, flat}, {node.output()}).mutable_scale_param()->set_axis(0);
  } else {
    writer.add(node, "Bias", {x, flat}, {node.output()}).mutable_bias_param()->set_axis(0);
  }
}

void import_arithmetic(const Node& node, LayerWriter& writer) {
  need_floats(node);
  if (std::ranges::find(node.inputs, nullptr) != node.inputs.end())
    give_up("an operand is missing");
  if (node.inputs.size() == 1) return writer.alias(*node.inputs[0], *node.output());
  if (is_eltwise(node)) return add_eltwise(node, writer);
  if (node.op() == "Mul" || node.op() == "Add") {
    const Value &a = *node.inputs[0], &b = *node.inputs[1];
    const Shape& out = node.output()->shape();
    if (is_by_channel(a, b, out)) return add_by_channel(node, writer, a, b);
    if (is_by_channel(b, a, out)) return add_by_channel(node, writer, b, a);
  }
  const size_t count = node.inputs.size();
  const bool is_mean = node.op() == "Mean";
  LayerEnd sum(node.inputs[0]);
  for (size_t i = 1; i < count; ++i) {
    const bool is_last = i + 1 == count && !is_mean;
    if (is_last) {
      add_arithmetic(node, writer, sum, node.inputs[i], node.output());
      return;
    }
    const std::string step = text("of_", i + 1);
    const std::string partial = writer.inner_blob(node, step);
    add_arithmetic(node, writer, sum, node.inputs[i], partial, step);
    sum = LayerEnd(partial);
  }
  writer.add(node, "Power", {sum}, {node.output()})
      .mutable_power_param()
      ->set_scale(1 / static_cast<float>(count));
}

void import_where(const Node& node, LayerWriter& writer) {
  if (!is_float(node.output()->type())) give_up("layers compute with floats");
  writer.add(node, "Where", {node.input(0), node.input(1), node.input(2)}, {node.output()});
}

}  // namespace

void add_arithmetic_importers(ImporterTable& table) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean"})
    table.add(op, import_arithmetic);
  table.add("Where", import_where);
}

}  // namespace crema::onnx
