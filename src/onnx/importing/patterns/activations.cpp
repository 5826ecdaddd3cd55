// Activations that exporters write as several operators.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

struct Bounds {
  Value* value = nullptr;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// The bounds of a Clip.
std::optional<Bounds> bounds_of(const Node* node) {
  if (node == nullptr || !node->is("Clip") || !is_float(node->input(0)->type()))
    return std::nullopt;
  Bounds bounds{.value = node->input(0)};
  const Call call = node->call();
  if (node->opset < 11) {
    bounds.low = call.get_float("min", bounds.low);
    bounds.high = call.get_float("max", bounds.high);
    return bounds;
  }
  for (size_t i = 1; i <= 2; ++i) {
    if (node->input(i) == nullptr) continue;
    const auto number = number_of(node->input(i));
    if (!number) return std::nullopt;
    (i == 1 ? bounds.low : bounds.high) = *number;
  }
  return bounds;
}

Node& put_hard_sigmoid(Graph& graph, Node& node, Value& x, double alpha, double beta) {
  return graph.substitute(node, "HardSigmoid", {&x},
                          {float_attribute("alpha", alpha), float_attribute("beta", beta)});
}

// What a Sigmoid is of: x, or x times a number.
std::optional<WithNumber> sigmoid_of(const Value* gate) {
  const Node* const sigmoid = maker_of(gate, "Sigmoid");
  if (sigmoid == nullptr || !is_float(sigmoid->input(0)->type())) return std::nullopt;
  if (const auto scaled = as_scale(sigmoid->input(0)->producer)) return scaled;
  return WithNumber{sigmoid->input(0), 1};
}

bool is_mish_gate(const Value* gate, const Value* x) {
  const Node* const tanh = maker_of(gate, "Tanh");
  const Node* const softplus = tanh == nullptr ? nullptr : maker_of(tanh->input(0), "Softplus");
  return softplus != nullptr && softplus->input(0) == x;
}

bool is_hard_gate(const Value* gate, const Value* x) {
  const Node* const sigmoid = maker_of(gate, "HardSigmoid");
  if (sigmoid == nullptr || sigmoid->input(0) != x) return false;
  const Call call = sigmoid->call();
  return is_near(call.get_float("alpha", 0.2), 1.0 / 6) && call.get_float("beta", 0.5) == 0.5;
}

// Whether the value is clip(x + 3, 0, 6).
bool is_clipped_to_six(const Value* value, const Value* x) {
  const auto bounds = bounds_of(maker_of(value, "Clip"));
  if (!bounds || bounds->low != 0 || bounds->high != 6) return false;
  const auto shift = as_shift(bounds->value->producer);
  return shift && shift->number == 3 && shift->value == x;
}

// Whether the product has these powers of x alone.
bool is_power_of_x(const Product& product, const Value* x, int64_t power) {
  int64_t found = 0;
  for (const Value* factor : product.factors) {
    if (factor == x) {
      ++found;
      continue;
    }
    const auto raised = as_power(factor->producer);
    if (!raised || raised->value != x) return false;
    found += static_cast<int64_t>(raised->number);
  }
  return found == power;
}

constexpr double kCubic = 0.044715;

// sqrt(2 / pi) * (x + 0.044715 x^3), also as sqrt(2 / pi) * x * (1 + 0.044715 x^2).
bool is_tanh_argument(const Graph& graph, Value* value, const Value* x) {
  const Product product = product_of(graph, value);
  if (!is_near(product.number, std::sqrt(2 / std::acos(-1.0)))) return false;
  if (product.factors.size() == 1) {
    const Node* const sum = maker_of(product.factors[0], "Add");
    Value* const cubic = sum == nullptr ? nullptr : other_operand(*sum, x);
    if (cubic == nullptr) return false;
    const Product inner = product_of(graph, cubic);
    return is_near(inner.number, kCubic) && is_power_of_x(inner, x, 3);
  }
  if (product.factors.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    if (product.factors[i] != x) continue;
    const auto shift = as_shift(product.factors[1 - i]->producer);
    if (!shift || shift->number != 1) return false;
    const Product inner = product_of(graph, shift->value);
    return is_near(inner.number, kCubic) && is_power_of_x(inner, x, 2);
  }
  return false;
}

}  // namespace

bool find_softplus(Graph& graph, Node& node) {
  if (!node.is("Log")) return false;
  const auto shift = as_shift(maker_of(node.input(0), "Add"));
  if (!shift || shift->number != 1) return false;
  const Node* const exponential = maker_of(shift->value, "Exp");
  if (exponential == nullptr) return false;
  graph.substitute(node, "Softplus", {exponential->input(0)});
  return true;
}

bool find_hard_sigmoid(Graph& graph, Node& node) {
  // clip(x + 3, 0, 6) / 6
  if (const auto scale = as_scale(&node); scale && is_near(scale->number, 1.0 / 6)) {
    const auto bounds = bounds_of(maker_of(scale->value, "Clip"));
    if (!bounds || bounds->low != 0 || bounds->high != 6) return false;
    const auto shift = as_shift(bounds->value->producer);
    if (!shift || shift->number != 3) return false;
    put_hard_sigmoid(graph, node, *shift->value, 1.0 / 6, 0.5);
    return true;
  }
  // clip(a * x + b, 0, 1)
  const auto bounds = bounds_of(&node);
  if (!bounds || bounds->low != 0 || bounds->high != 1) return false;
  if (const auto shift = as_shift(bounds->value->producer)) {
    const auto scale = as_scale(shift->value->producer);
    if (!scale) return false;
    put_hard_sigmoid(graph, node, *scale->value, scale->number, shift->number);
    return true;
  }
  const auto scale = as_scale(bounds->value->producer);
  if (!scale) return false;
  const auto shift = as_shift(scale->value->producer);
  if (!shift) return false;
  put_hard_sigmoid(graph, node, *shift->value, scale->number, scale->number * shift->number);
  return true;
}

bool find_gated(Graph& graph, Node& node) {
  // x * clip(x + 3, 0, 6) / 6, whichever is divided
  if (node.is("Mul") || node.is("Div")) {
    const Product product = product_of(graph, node);
    if (product.factors.size() == 2 && is_near(product.number, 1.0 / 6)) {
      for (size_t i = 0; i < 2; ++i) {
        if (!is_clipped_to_six(product.factors[i], product.factors[1 - i]) ||
            product.factors[1 - i]->shape() != node.output()->shape())
          continue;
        graph.substitute(node, "HardSwish", {product.factors[1 - i]});
        return true;
      }
    }
  }
  if (!node.is("Mul") || node.inputs.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    Value* const x = node.input(i);
    const Value* const gate = node.input(1 - i);
    if (x == nullptr || gate == nullptr || x->shape() != gate->shape()) continue;
    if (const auto sigmoid = sigmoid_of(gate)) {
      if (sigmoid->value == x) {
        graph.substitute(node, "Swish", {x}, {float_attribute("alpha", sigmoid->number)});
        return true;
      }
      // x may itself be the product that the sigmoid is of.
      const Node* const plain = maker_of(gate, "Sigmoid");
      if (plain->input(0) == x) {
        graph.substitute(node, "Swish", {x}, {float_attribute("alpha", 1)});
        return true;
      }
    }
    if (is_mish_gate(gate, x) || is_hard_gate(gate, x)) {
      graph.substitute(node, is_mish_gate(gate, x) ? "Mish" : "HardSwish", {x});
      return true;
    }
  }
  return false;
}

bool find_gelu(Graph& graph, Node& node) {
  if (!node.is("Mul") && !node.is("Div")) return false;
  const Product product = product_of(graph, node);
  if (product.factors.size() != 2 || !is_near(product.number, 0.5)) return false;
  for (size_t i = 0; i < 2; ++i) {
    Value* const x = product.factors[i];
    const auto shift = as_shift(product.factors[1 - i]->producer);
    if (!shift || shift->number != 1 || x->shape() != node.output()->shape()) continue;
    if (const Node* const erf = maker_of(shift->value, "Erf")) {
      const Product inner = product_of(graph, erf->input(0));
      if (inner.factors != std::vector<Value*>{x} || !is_near(inner.number, std::sqrt(0.5)))
        continue;
      graph.substitute(node, "Gelu", {x});
      return true;
    }
    const Node* const tanh = maker_of(shift->value, "Tanh");
    if (tanh == nullptr || !is_tanh_argument(graph, tanh->input(0), x)) continue;
    graph.substitute(node, "Gelu", {x}, {string_attribute("approximate", "tanh")});
    return true;
  }
  return false;
}

bool find_clip(Graph& graph, Node& node) {
  const bool is_max = node.is("Max");
  if ((!is_max && !node.is("Min")) || node.inputs.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    Value* const x = node.input(i);
    const auto number = number_of(node.input(1 - i));
    if (!number || x == nullptr || x->is_constant() || !is_float(x->type()) ||
        x->shape() != node.output()->shape())
      continue;
    Bounds bounds{.value = x};
    // An inner Clip that nothing else reads is part of it.
    if (const auto inner = bounds_of(sole_maker_of(graph, x, "Clip"))) bounds = *inner;
    if (is_max) {
      bounds.low = std::max(bounds.low, *number);
    } else {
      bounds.high = std::min(bounds.high, *number);
    }
    if (!(bounds.low <= bounds.high)) return false;
    const auto bound = [&](double value) -> Value* {
      if (std::isinf(value)) return nullptr;
      return &graph.add_constant(node.output()->name + "_bound", Array::scalar(x->type(), value));
    };
    graph.substitute(node, "Clip", {bounds.value, bound(bounds.low), bound(bounds.high)});
    return true;
  }
  return false;
}

}  // namespace crema::onnx
