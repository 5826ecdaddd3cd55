// Normalisations that exporters write as several operators.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

// What the node divides, and the root that it divides by: x / sqrt(v), x * (1 / sqrt(v)), x *
// v^-0.5.
struct Quotient {
  Value* dividend = nullptr;
  Value* variance = nullptr;  // with epsilon
};

// v, if the value is 1 / sqrt(v).
Value* inverse_root_of(const Value* value) {
  if (value == nullptr || value->producer == nullptr) return nullptr;
  const Node& node = *value->producer;
  if (node.is("Reciprocal")) {
    const Node* const root = maker_of(node.input(0), "Sqrt");
    return root == nullptr ? nullptr : root->input(0);
  }
  if (node.is("Div") && number_of(node.input(0)) == 1.0) {
    const Node* const root = maker_of(node.input(1), "Sqrt");
    return root == nullptr ? nullptr : root->input(0);
  }
  const auto power = as_power(&node);
  return power && power->number == -0.5 ? power->value : nullptr;
}

std::vector<Quotient> quotients_of(const Node& node) {
  std::vector<Quotient> result;
  if (node.is("Div")) {
    const Node* const root = maker_of(node.input(1), "Sqrt");
    if (root != nullptr) result.push_back({node.input(0), root->input(0)});
  }
  if (node.is("Mul") && node.inputs.size() == 2) {
    for (size_t i = 0; i < 2; ++i) {
      Value* const variance = inverse_root_of(node.input(1 - i));
      if (variance != nullptr) result.push_back({node.input(i), variance});
    }
  }
  return result;
}

// x, if the value is x - mean(x) over these axes.
Value* centred_of(const Value* value, const std::vector<int>& axes) {
  const Node* const difference = maker_of(value, "Sub");
  if (difference == nullptr) return nullptr;
  const Node* const mean = difference->input(1)->producer;
  const bool is_mean =
      mean != nullptr && mean->input(0) == difference->input(0) && kept_mean_axes(mean) == axes;
  return is_mean ? difference->input(0) : nullptr;
}

// What a variance was made of: x, over the last axes, and what is added to it.
struct Variance {
  Value* x = nullptr;
  std::vector<int> axes = {};
  double epsilon = 0;
};

// Of mean((x - mean(x))^2) + epsilon.
std::optional<Variance> as_variance(const Value& value) {
  const auto shifted = as_shift(value.producer);
  if (!shifted) return std::nullopt;
  const Node* const mean = shifted->value->producer;
  const std::vector<int> axes = kept_mean_axes(mean);
  if (axes.empty() || !are_last(axes, mean->input(0)->shape().rank())) return std::nullopt;
  const auto square = as_power(mean->input(0)->producer);
  if (!square || square->number != 2) return std::nullopt;
  Value* const x = centred_of(square->value, axes);
  if (x == nullptr || x->is_constant()) return std::nullopt;
  return Variance{x, axes, shifted->number};
}

// A constant that `node`, the only reader of a normalised value, multiplies it by or adds to it.
Value* constant_of(const Node* node, std::string_view op, const Value& normalized) {
  if (node == nullptr || !node->is(op)) return nullptr;
  Value* const other = other_operand(*node, &normalized);
  const bool is_weight =
      other != nullptr && other->is_constant() && node->output()->shape() == normalized.shape();
  return is_weight ? other : nullptr;
}

// The node behind a normalisation that the scale and bias are part of.
struct AffineEnd {
  Node* last = nullptr;
  Value* scale = nullptr;
  Value* bias = nullptr;
};

template <class Fits>
AffineEnd affine_behind(const Graph& graph, Node& node, bool with_bias, const Fits& fits) {
  AffineEnd end{.last = &node};
  Node* const multiplied = graph.only_reader(*node.output());
  Value* const scale = constant_of(multiplied, "Mul", *node.output());
  if (scale == nullptr || !fits(scale->shape())) return end;
  end = {.last = multiplied, .scale = scale};
  if (!with_bias) return end;
  Node* const added = graph.only_reader(*multiplied->output());
  Value* const bias = constant_of(added, "Add", *multiplied->output());
  if (bias == nullptr || !fits(bias->shape())) return end;
  end.last = added;
  end.bias = bias;
  return end;
}

Shape last_axes(const Shape& x, size_t count) {
  return Shape(
      std::vector<int64_t>(x.dims().end() - static_cast<std::ptrdiff_t>(count), x.dims().end()));
}

void put_layer_norm(Graph& graph, const AffineEnd& end, const Variance& variance) {
  Value& x = *variance.x;
  const double epsilon = variance.epsilon;
  const Shape tail = last_axes(x.shape(), variance.axes.size());
  const int64_t axis = -static_cast<int64_t>(variance.axes.size());
  if (end.scale == nullptr) {
    graph.substitute_layer(*end.last, "LayerNorm", {&x},
                           {int_attribute("axis", axis), float_attribute("eps", epsilon),
                            int_attribute("scale_term", 0), int_attribute("bias_term", 0)});
    return;
  }
  std::vector<Value*> inputs = {&x, &reshaped_constant(graph, *end.scale, tail)};
  if (end.bias != nullptr) inputs.push_back(&reshaped_constant(graph, *end.bias, tail));
  graph.substitute(*end.last, "LayerNormalization", inputs,
                   {int_attribute("axis", axis), float_attribute("epsilon", epsilon)});
}

bool has_only_number(const Value* value, double number) {
  if (value == nullptr || !value->is_constant()) return false;
  const std::vector<double> numbers = value->values().doubles();
  return std::ranges::all_of(numbers, [&](double each) { return each == number; });
}

}  // namespace

bool find_layer_norm(Graph& graph, Node& node) {
  for (const Quotient& quotient : quotients_of(node)) {
    const auto variance = as_variance(*quotient.variance);
    if (!variance || centred_of(quotient.dividend, variance->axes) != variance->x) continue;
    const Shape tail = last_axes(variance->x->shape(), variance->axes.size());
    const AffineEnd end = affine_behind(
        graph, node, true, [&](const Shape& shape) { return covers_tail(shape, tail); });
    put_layer_norm(graph, end, *variance);
    return true;
  }
  return false;
}

// As Keras writes it: x * f + (beta - mean(x) * f) with f = gamma / sqrt(v).
bool find_moments_norm(Graph& graph, Node& node) {
  if (!node.is("Add") || node.inputs.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Node* const scaled = maker_of(node.input(i), "Mul");
    const Node* shift = maker_of(node.input(1 - i), "Mul");
    Value* bias = nullptr;
    if (const Node* const sum = maker_of(node.input(1 - i), "Add"); sum != nullptr) {
      for (size_t k = 0; k < 2; ++k) {
        if (!sum->input(k)->is_constant()) continue;
        bias = sum->input(k);
        shift = maker_of(sum->input(1 - k), "Mul");
      }
    }
    if (scaled == nullptr || shift == nullptr) continue;
    for (size_t k = 0; k < 2; ++k) {
      const Value* const x = scaled->input(k);
      const Value* const factor = scaled->input(1 - k);
      const Node* const negative = maker_of(other_operand(*shift, factor), "Neg");
      if (negative == nullptr) continue;
      const Node* const mean = negative->input(0)->producer;
      Value* gamma = nullptr;
      Value* root = inverse_root_of(factor);
      if (const Node* const product = maker_of(factor, "Mul"); root == nullptr && product) {
        gamma = product->input(product->input(0)->is_constant() ? 0 : 1);
        root = inverse_root_of(other_operand(*product, gamma));
      }
      if (root == nullptr || (gamma != nullptr && !gamma->is_constant())) continue;
      const auto variance = as_variance(*root);
      if (!variance || variance->x != x || kept_mean_axes(mean) != variance->axes ||
          mean->input(0) != x || (gamma == nullptr && bias != nullptr))
        continue;
      const Shape tail = last_axes(x->shape(), variance->axes.size());
      const bool fits = (gamma == nullptr || covers_tail(gamma->shape(), tail)) &&
                        (bias == nullptr || covers_tail(bias->shape(), tail)) &&
                        node.output()->shape() == x->shape();
      if (!fits) continue;
      put_layer_norm(graph, {.last = &node, .scale = gamma, .bias = bias}, *variance);
      return true;
    }
  }
  return false;
}

bool find_rms_norm(Graph& graph, Node& node) {
  for (const Quotient& quotient : quotients_of(node)) {
    Value* const x = quotient.dividend;
    if (x->is_constant() || !is_float(x->type())) continue;
    const auto shifted = as_shift(quotient.variance->producer);
    if (!shifted) continue;
    const Node* const mean = shifted->value->producer;
    const std::vector<int> axes = kept_mean_axes(mean);
    if (!are_last(axes, x->shape().rank())) continue;
    const auto square = as_power(mean->input(0)->producer);
    if (!square || square->number != 2 || square->value != x) continue;
    const Shape tail = last_axes(x->shape(), axes.size());
    const AffineEnd end = affine_behind(
        graph, node, false, [&](const Shape& shape) { return covers_tail(shape, tail); });
    const int64_t axis = -static_cast<int64_t>(axes.size());
    if (end.scale == nullptr) {
      graph.substitute_layer(*end.last, "RMSNorm", {x},
                             {int_attribute("axis", axis), float_attribute("eps", shifted->number),
                              int_attribute("affine", 0)});
    } else {
      graph.substitute(*end.last, "RMSNormalization",
                       {x, &reshaped_constant(graph, *end.scale, tail)},
                       {int_attribute("axis", axis), float_attribute("epsilon", shifted->number)});
    }
    return true;
  }
  return false;
}

// Reshape to (N, groups, ...), InstanceNormalization without scale, Reshape back, Mul, Add.
bool find_group_norm(Graph& graph, Node& node) {
  if (!node.is("InstanceNormalization") || node.inputs.size() != 3) return false;
  const Node* const split = maker_of(node.input(0), "Reshape");
  Node* const joined_back = graph.only_reader(*node.output());
  if (split == nullptr || joined_back == nullptr || !joined_back->is("Reshape")) return false;
  Value& x = *split->input(0);
  const Shape &shape = x.shape(), &grouped = node.input(0)->shape();
  if (joined_back->output()->shape() != shape || shape.rank() < 3 || grouped.rank() < 3 ||
      grouped[0] != shape[0] || grouped[1] < 1 || shape[1] % grouped[1] != 0)
    return false;
  if (!has_only_number(node.input(1), 1) || !has_only_number(node.input(2), 0)) return false;
  const double epsilon = node.call().get_float("epsilon", 1e-5);
  const AffineEnd end = affine_behind(graph, *joined_back, true, [&](const Shape& weights) {
    return covers_channels(weights, shape);
  });
  if (end.scale == nullptr || end.bias == nullptr) {
    graph.substitute_layer(*joined_back, "GroupNorm", {&x},
                           {int_attribute("group", grouped[1]), float_attribute("eps", epsilon),
                            int_attribute("scale_term", 0), int_attribute("bias_term", 0)});
    return true;
  }
  const Shape channels{shape[1]};
  graph.substitute(*end.last, "GroupNormalization",
                   {&x, &reshaped_constant(graph, *end.scale, channels),
                    &reshaped_constant(graph, *end.bias, channels)},
                   {int_attribute("num_groups", grouped[1]), float_attribute("epsilon", epsilon)});
  return true;
}

}  // namespace crema::onnx
