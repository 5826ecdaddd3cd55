// Numbers and constants beside a value: layers Power, Scale and Bias.
#include <algorithm>
#include <cmath>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

struct PowerForm {
  Value* value = nullptr;
  double scale = 1, shift = 0, power = 1;
};

// c - x and c / x.
std::optional<PowerForm> reversed_form(const Node& node) {
  if (!node.is("Sub") && !node.is("Div")) return std::nullopt;
  const auto number = number_of(node.input(0));
  Value* const x = node.input(1);
  if (!number || x == nullptr || x->is_constant() || !is_float(x->type()) ||
      x->shape() != node.output()->shape())
    return std::nullopt;
  if (node.is("Sub")) return PowerForm{.value = x, .scale = -1, .shift = *number};
  if (*number == 0) return std::nullopt;
  return PowerForm{.value = x, .scale = 1 / *number, .power = -1};
}

std::optional<PowerForm> power_form(const Node& node) {
  if (const auto shift = as_shift(&node))
    return PowerForm{.value = shift->value, .shift = shift->number};
  if (const auto scale = as_scale(&node))
    return PowerForm{.value = scale->value, .scale = scale->number};
  if (const auto power = as_power(&node))
    return PowerForm{.value = power->value, .power = power->number};
  return reversed_form(node);
}

double float_of(const Node& node, std::string_view name, double otherwise) {
  return node.call().get_float(name, otherwise);
}

// Settings are f32.
bool is_exact(const PowerForm& form) {
  for (const double number : {form.scale, form.shift, form.power}) {
    if (!std::isfinite(number) || std::abs(number) > 1e38) return false;
  }
  return form.value->type() != TensorProto::DOUBLE ||
         (static_cast<float>(form.scale) == form.scale &&
          static_cast<float>(form.shift) == form.shift &&
          static_cast<float>(form.power) == form.power);
}

// The axes of `out` that the constant covers, as a block; none if it repeats in between.
std::optional<std::pair<int, Shape>> block_of(const Shape& constant, const Shape& out) {
  const int skipped = out.rank() - constant.rank();
  int first = 0, last = constant.rank();
  while (first < last && constant[first] == 1) ++first;
  while (last > first && constant[last - 1] == 1) --last;
  if (skipped < 0 || first == last) return std::nullopt;
  std::vector<int64_t> dims;
  for (int axis = first; axis < last; ++axis) {
    if (constant[axis] != out[skipped + axis]) return std::nullopt;
    dims.push_back(constant[axis]);
  }
  return std::pair(skipped + first, Shape(std::move(dims)));
}

// The constant as a factor or summand: of Sub and Div turned round.
Value& turned_constant(Graph& graph, const Node& node, const Value& value, const Shape& shape) {
  if (node.is("Mul") || node.is("Add")) return reshaped_constant(graph, value, shape);
  std::vector<double> numbers = value.values().doubles();
  for (double& number : numbers) number = node.is("Sub") ? -number : 1 / number;
  Value& result = graph.add_constant(value.name, Array::of_doubles(value.type(), shape, numbers));
  result.weight = value.weight;
  return result;
}

NodeAttributes block_attributes(int axis, int axes) {
  NodeAttributes attributes;
  if (axis != 1) attributes.push_back(int_attribute("axis", axis));
  if (axes != 1) attributes.push_back(int_attribute("num_axes", axes));
  return attributes;
}

}  // namespace

bool find_power(Graph& graph, Node& node) {
  auto form = power_form(node);
  if (!form && node.is_layer("Power")) {
    // Joined with a Power in front of it, below.
    form = PowerForm{.value = node.input(0),
                     .scale = float_of(node, "scale", 1),
                     .shift = float_of(node, "shift", 0),
                     .power = float_of(node, "power", 1)};
  }
  if (!form || !is_exact(*form)) return false;
  Node* const inner = sole_layer_of(graph, form->value, "Power");
  const bool joins = inner != nullptr && float_of(*inner, "power", 1) == 1;
  if (node.is_layer("Power") && !joins) return false;
  if (joins) {
    const double scale = float_of(*inner, "scale", 1), shift = float_of(*inner, "shift", 0);
    form->shift += form->scale * shift;
    form->scale *= scale;
    form->value = inner->input(0);
    if (!is_exact(*form)) return false;
  }
  NodeAttributes attributes;
  if (form->power != 1) attributes.push_back(float_attribute("power", form->power));
  if (form->scale != 1) attributes.push_back(float_attribute("scale", form->scale));
  if (form->shift != 0) attributes.push_back(float_attribute("shift", form->shift));
  graph.substitute_layer(node, "Power", {form->value}, std::move(attributes));
  return true;
}

bool find_scale(Graph& graph, Node& node) {
  const bool is_sum = node.is("Add") || node.is("Sub");
  if ((!is_sum && !node.is("Mul") && !node.is("Div")) || node.inputs.size() != 2) return false;
  const bool commutes = node.is("Add") || node.is("Mul");
  for (size_t i = 0; i < (commutes ? 2U : 1U); ++i) {
    Value* const x = node.input(i);
    const Value* const constant = node.input(1 - i);
    if (x == nullptr || constant == nullptr || x->is_constant() || !constant->is_constant() ||
        !is_float(x->type()) || x->shape() != node.output()->shape() ||
        constant->values().count() < 2)
      continue;
    const auto block = block_of(constant->shape(), x->shape());
    if (!block) continue;
    const auto& [axis, shape] = *block;
    graph.substitute_layer(node, is_sum ? "Bias" : "Scale",
                           {x, &turned_constant(graph, node, *constant, shape)},
                           block_attributes(axis, shape.rank()));
    return true;
  }
  return false;
}

// A Bias behind a Scale over the same axes.
bool join_scale(Graph& graph, Node& node) {
  if (!node.is_layer("Bias") || node.inputs.size() != 2) return false;
  const Node* const scale = sole_layer_of(graph, node.input(0), "Scale");
  if (scale == nullptr || scale->inputs.size() != 2 || !scale->input(1)->is_constant() ||
      !node.input(1)->is_constant() || scale->input(1)->shape() != node.input(1)->shape())
    return false;
  const Call first = scale->call(), second = node.call();
  if (first.get_int("axis", 1) != second.get_int("axis", 1) || first.has_attribute("bias_term"))
    return false;
  NodeAttributes attributes(scale->message.attribute().begin(), scale->message.attribute().end());
  attributes.push_back(int_attribute("bias_term", 1));
  graph.substitute_layer(node, "Scale", {scale->input(0), scale->input(1), node.input(1)},
                         std::move(attributes));
  return true;
}

}  // namespace crema::onnx
