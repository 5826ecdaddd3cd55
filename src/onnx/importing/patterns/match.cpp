#include "onnx/importing/patterns/match.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace crema::onnx {

namespace {

constexpr int kMaxProductDepth = 6;

void multiply(const Graph& graph, Product& product, Value* value, int depth);

// Adds the factors of a Mul or of a Div by a number; false if the node is something else.
bool multiply_operands(const Graph& graph, Product& product, const Node& node, int depth) {
  if (depth > kMaxProductDepth) return false;
  if (node.is("Mul")) {
    multiply(graph, product, node.input(0), depth);
    multiply(graph, product, node.input(1), depth);
    return true;
  }
  const auto divisor = node.is("Div") ? number_of(node.input(1)) : std::nullopt;
  if (!divisor || *divisor == 0) return false;
  product.number /= *divisor;
  multiply(graph, product, node.input(0), depth);
  return true;
}

void multiply(const Graph& graph, Product& product, Value* value, int depth) {
  if (const auto number = number_of(value)) {
    product.number *= *number;
    return;
  }
  const Node* const producer = value->producer;
  const bool is_inner = producer != nullptr && graph.only_reader(*value) != nullptr;
  if (is_inner && multiply_operands(graph, product, *producer, depth + 1)) return;
  product.factors.push_back(value);
}

// The operand with the number, where the other one is a number and the result has its shape.
std::optional<WithNumber> with_number(const Node& node, bool commutes) {
  if (node.inputs.size() != 2 || node.output() == nullptr) return std::nullopt;
  for (size_t i = 0; i < (commutes ? 2U : 1U); ++i) {
    Value* const value = node.input(i);
    const auto number = number_of(node.input(1 - i));
    if (number && value != nullptr && !value->is_constant() && is_float(value->type()) &&
        value->shape() == node.output()->shape())
      return WithNumber{value, *number};
  }
  return std::nullopt;
}

template <size_t kSize>
void transpose_bytes(const Array& from, std::vector<std::byte>& to) {
  const auto rows = static_cast<size_t>(from.shape()[0]);
  const auto columns = static_cast<size_t>(from.shape()[1]);
  constexpr size_t kTile = 32;
  const std::byte* const source = from.bytes().data();
  for (size_t row = 0; row < rows; row += kTile) {
    for (size_t column = 0; column < columns; column += kTile) {
      for (size_t r = row; r < std::min(row + kTile, rows); ++r) {
        for (size_t c = column; c < std::min(column + kTile, columns); ++c)
          std::memcpy(&to[(c * rows + r) * kSize], source + (r * columns + c) * kSize, kSize);
      }
    }
  }
}

}  // namespace

Node* maker_of(const Value* value, std::string_view op) {
  return value != nullptr && value->producer != nullptr && value->producer->is(op) ? value->producer
                                                                                   : nullptr;
}

Node* sole_maker_of(const Graph& graph, const Value* value, std::string_view op) {
  Node* const maker = maker_of(value, op);
  return maker != nullptr && graph.only_reader(*value) != nullptr ? maker : nullptr;
}

Node* sole_layer_of(const Graph& graph, const Value* value, std::string_view type) {
  const bool is_made = value != nullptr && value->producer != nullptr &&
                       value->producer->is_layer(type) && graph.only_reader(*value) != nullptr;
  return is_made ? value->producer : nullptr;
}

std::optional<double> number_of(const Value* value) {
  if (value == nullptr || !value->is_constant() || value->values().count() != 1)
    return std::nullopt;
  return value->values().at(0);
}

bool is_near(double number, double exact) {
  const auto differ = [](double a, double b, double share) {
    return std::abs(a - b) > share * std::abs(b);
  };
  if (!differ(number, exact, 1e-5)) return true;
  for (const ElementType type : {TensorProto::FLOAT16, TensorProto::BFLOAT16}) {
    const double rounded = Array::scalar(type, exact).at(0);
    const double reciprocal = 1 / Array::scalar(type, 1 / exact).at(0);
    if (!differ(number, rounded, 1e-7) || !differ(number, reciprocal, 1e-7)) return true;
  }
  return false;
}

std::optional<WithNumber> as_shift(const Node* node) {
  if (node == nullptr) return std::nullopt;
  if (node->is("Add")) return with_number(*node, true);
  if (!node->is("Sub")) return std::nullopt;
  auto found = with_number(*node, false);
  if (found) found->number = -found->number;
  return found;
}

std::optional<WithNumber> as_scale(const Node* node) {
  if (node == nullptr) return std::nullopt;
  if (node->is("Mul")) return with_number(*node, true);
  if (!node->is("Div")) return std::nullopt;
  auto found = with_number(*node, false);
  if (!found || found->number == 0) return std::nullopt;
  found->number = 1 / found->number;
  return found;
}

std::optional<WithNumber> as_power(const Node* node) {
  if (node == nullptr) return std::nullopt;
  if (node->is("Pow")) return with_number(*node, false);
  if (node->is("Mul") && node->input(0) == node->input(1) && is_float(node->input(0)->type()) &&
      !node->input(0)->is_constant())
    return WithNumber{node->input(0), 2};
  return std::nullopt;
}

Product product_of(const Graph& graph, const Node& node) {
  Product product;
  multiply_operands(graph, product, node, 0);
  return product;
}

Product product_of(const Graph& graph, Value* value) {
  Product product;
  multiply(graph, product, value, 0);
  return product;
}

std::vector<int> kept_mean_axes(const Node* node) {
  if (node == nullptr || node->output() == nullptr) return {};
  if (node->is("GlobalAveragePool")) {
    std::vector<int> spatial;
    for (int axis = 2; axis < node->input(0)->shape().rank(); ++axis) spatial.push_back(axis);
    return spatial;
  }
  if (!node->is("ReduceMean")) return {};
  const Call call = node->call();
  if (call.get_int("keepdims", 1) == 0) return {};
  if (node->opset >= 18 && node->input(1) != nullptr && !node->input(1)->is_constant()) return {};
  const auto axes = call.ints_of("axes", 1, 18);
  if (!axes) return {};
  std::vector<int> result = call.canonical(*axes, node->input(0)->shape().rank());
  std::ranges::sort(result);
  return result;
}

bool are_last(const std::vector<int>& axes, int rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int>(axes.size()) + static_cast<int>(i)) return false;
  }
  return !axes.empty();
}

Value* other_operand(const Node& node, const Value* value) {
  if (node.inputs.size() != 2) return nullptr;
  if (node.inputs[0] == value) return node.inputs[1];
  return node.inputs[1] == value ? node.inputs[0] : nullptr;
}

Value& reshaped_constant(Graph& graph, const Value& value, const Shape& shape) {
  Value& result = graph.add_constant(value.name, value.values().reshaped(shape));
  result.weight = value.weight;
  return result;
}

Value& transposed_constant(Graph& graph, const Value& value) {
  const Array& from = value.values();
  std::vector<std::byte> bytes(from.bytes().size());
  switch (element_size(from.type())) {
    case 2:
      transpose_bytes<2>(from, bytes);
      break;
    case 4:
      transpose_bytes<4>(from, bytes);
      break;
    case 8:
      transpose_bytes<8>(from, bytes);
      break;
    default:
      transpose_bytes<1>(from, bytes);
  }
  Value& result = graph.add_constant(
      value.name, Array(from.type(), Shape{from.shape()[1], from.shape()[0]}, std::move(bytes)));
  result.weight = value.weight;
  return result;
}

Value& index_constant(Graph& graph, std::string_view name, const std::vector<int64_t>& values) {
  return graph.add_constant(name, Array::of_indices(values));
}

bool covers_tail(const Shape& shape, const Shape& tail) {
  const int skipped = shape.rank() - tail.rank();
  if (skipped < 0 || shape.count(0, skipped) != 1) return false;
  for (int axis = 0; axis < tail.rank(); ++axis) {
    if (shape[skipped + axis] != tail[axis]) return false;
  }
  return true;
}

bool covers_channels(const Shape& shape, const Shape& x) {
  if (x.rank() < 2) return false;
  const int channels = 1 - (x.rank() - shape.rank());
  return channels >= 0 && channels < shape.rank() && shape[channels] == x[1] &&
         shape.count() == x[1];
}

}  // namespace crema::onnx
