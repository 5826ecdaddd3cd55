// Products with weights as layers InnerProduct, and the forms of MatMul that a layer has.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/index_moves.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

bool is_weight_matrix(const Value* value) {
  return value != nullptr && value->is_constant() && value->shape().rank() == 2 &&
         value->shape().count() > 0 && is_float(value->type());
}

bool is_activation(const Value* value) {
  return value != nullptr && !value->is_constant() && is_float(value->type());
}

// `factor` times the numbers.
Value& scaled_constant(Graph& graph, Value& value, double factor) {
  if (factor == 1) return value;
  std::vector<double> numbers = value.values().doubles();
  for (double& number : numbers) number *= factor;
  Value& result =
      graph.add_constant(value.name, Array::of_doubles(value.type(), value.shape(), numbers));
  result.weight = value.weight;
  return result;
}

// A constant that is added to N outputs, as a vector; null if it is another one.
Value* bias_vector(Graph& graph, Value* added, int64_t outputs) {
  if (added == nullptr || !added->is_constant() || !is_float(added->type())) return nullptr;
  const Array& values = added->values();
  if (values.count() == 1 && outputs > 1) {
    const std::vector<int64_t> sources(static_cast<size_t>(outputs), 0);
    Value& spread =
        graph.add_constant(added->name, values.reshaped(Shape{1}).taken(Shape{outputs}, sources));
    spread.weight = added->weight;
    return &spread;
  }
  if (!covers_tail(values.shape(), Shape{outputs})) return nullptr;
  return values.shape().rank() == 1 ? added : &reshaped_constant(graph, *added, Shape{outputs});
}

NodeAttributes inner_product_attributes(int64_t outputs, int axis, bool has_bias) {
  NodeAttributes attributes = {int_attribute("num_output", outputs)};
  if (axis != 1) attributes.push_back(int_attribute("axis", axis));
  if (!has_bias) attributes.push_back(int_attribute("bias_term", 0));
  return attributes;
}

bool put_gemm(Graph& graph, Node& node) {
  const Call call = node.call();
  Value* const x = node.input(0);
  Value* const w = node.input(1);
  if (!is_activation(x) || !is_weight_matrix(w) || call.get_int("transA", 0) != 0) return false;
  const bool is_transposed = call.get_int("transB", 0) != 0;
  const int64_t outputs = w->shape()[is_transposed ? 0 : 1];
  const double alpha = call.get_float("alpha", 1), beta = call.get_float("beta", 1);
  std::vector<Value*> inputs = {x, w};
  if (node.input(2) != nullptr && beta != 0) {
    Value* const bias = bias_vector(graph, node.input(2), outputs);
    if (bias == nullptr) return false;
    inputs.push_back(&scaled_constant(graph, *bias, beta));
  }
  Value& rows = is_transposed ? *w : transposed_constant(graph, *w);
  inputs[1] = &scaled_constant(graph, rows, alpha);
  graph.substitute_layer(node, "InnerProduct", inputs,
                         inner_product_attributes(outputs, 1, inputs.size() == 3));
  return true;
}

bool put_mat_mul(Graph& graph, Node& node) {
  Value* const x = node.input(0);
  Value* const w = node.input(1);
  if (!is_activation(x) || !is_weight_matrix(w) || x->shape().rank() < 2) return false;
  const int axis = x->shape().rank() == 2 ? 1 : -1;
  graph.substitute_layer(node, "InnerProduct", {x, &transposed_constant(graph, *w)},
                         inner_product_attributes(w->shape()[1], axis, false));
  return true;
}

// Bias behind a Conv: a constant with one number for each channel.
bool join_conv_bias(Graph& graph, Node& node, Node& conv, Value& added) {
  const Shape& out = conv.output()->shape();
  if (conv.input(2) != nullptr || !covers_channels(added.shape(), out)) return false;
  Value& bias = reshaped_constant(graph, added, Shape{out[1]});
  std::vector<Value*> inputs = conv.inputs;
  inputs.resize(2);
  inputs.push_back(&bias);
  NodeAttributes attributes(conv.message.attribute().begin(), conv.message.attribute().end());
  Node& joined = graph.substitute(node, conv.op(), inputs, std::move(attributes));
  joined.message.set_name(conv.message.name());
  return true;
}

// Whether a Transpose exchanges the last two axes alone.
bool swaps_last_axes(const Node* node) {
  if (node == nullptr) return false;
  const int rank = node->input(0)->shape().rank();
  if (rank < 2) return false;
  std::vector<int64_t> wanted;
  for (int axis = 0; axis < rank; ++axis) wanted.push_back(axis);
  std::swap(wanted[wanted.size() - 1], wanted[wanted.size() - 2]);
  std::vector<int64_t> reversed;
  for (int axis = rank - 1; axis >= 0; --axis) reversed.push_back(axis);
  return node->call().get_ints("perm", reversed) == wanted;
}

std::vector<int64_t> matrices_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end() - 2};
}

}  // namespace

bool find_inner_product(Graph& graph, Node& node) {
  if (node.is("Gemm")) return put_gemm(graph, node);
  return node.is("MatMul") && put_mat_mul(graph, node);
}

bool join_bias(Graph& graph, Node& node) {
  if (!node.is("Add") || node.inputs.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    Value* const product = node.input(i);
    Value* const added = node.input(1 - i);
    if (product == nullptr || added == nullptr || !added->is_constant() ||
        product->shape() != node.output()->shape())
      continue;
    for (const char* op : {"Conv", "ConvTranspose"}) {
      Node* const conv = sole_maker_of(graph, product, op);
      if (conv != nullptr && conv->input(1)->is_constant() &&
          join_conv_bias(graph, node, *conv, *added))
        return true;
    }
    Node* inner = sole_layer_of(graph, product, "InnerProduct");
    if (inner == nullptr) inner = sole_layer_of(graph, product, "Embed");
    if (inner == nullptr || inner->inputs.size() != 2) continue;
    const int64_t outputs = inner->call().get_int("num_output", 0);
    Value* const bias = bias_vector(graph, added, outputs);
    if (bias == nullptr) continue;
    NodeAttributes attributes;
    for (const AttributeProto& attribute : inner->message.attribute()) {
      if (attribute.name() != "bias_term") attributes.push_back(attribute);
    }
    Node& joined = graph.substitute_layer(
        node, inner->op(), {inner->input(0), inner->input(1), bias}, std::move(attributes));
    joined.message.set_name(inner->message.name());
    return true;
  }
  return false;
}

bool drop_flatten(Graph& graph, Node& node) {
  if (!node.is_layer("InnerProduct") || node.call().get_int("axis", 1) != 1) return false;
  Value* const flat = node.input(0);
  if (flat->producer == nullptr || flat->shape().rank() != 2) return false;
  const Node& producer = *flat->producer;
  if (!producer.is("Flatten") && !producer.is("Reshape") && !producer.is("Squeeze")) return false;
  Value* const x = producer.input(0);
  if (moves_open_batch(graph, producer)) return false;
  if (x->is_constant() || x->shape().rank() < 3 || x->shape()[0] != flat->shape()[0]) return false;
  graph.set_input(node, 0, x);
  return true;
}

bool find_scaled_product(Graph& graph, Node& node) {
  const bool is_product = node.is("MatMul"), is_layer = node.is_layer("MatMul");
  if (!is_product && !is_layer) {
    // A factor behind the product.
    const auto scale = as_scale(&node);
    Node* const product = scale ? sole_layer_of(graph, scale->value, "MatMul") : nullptr;
    if (product == nullptr) return false;
    NodeAttributes attributes(product->message.attribute().begin(),
                              product->message.attribute().end());
    const double factor = product->call().get_float("scale", 1) * scale->number;
    std::erase_if(attributes, [](const AttributeProto& each) { return each.name() == "scale"; });
    if (factor != 1) attributes.push_back(float_attribute("scale", factor));
    graph.substitute_layer(node, "MatMul", product->inputs, std::move(attributes)).bottoms = 2;
    return true;
  }
  Value *a = node.input(0), *b = node.input(1);
  const Shape &left = a->shape(), &right = b->shape();
  if (!is_float(a->type()) || left.rank() < 2 || right.rank() < 2) return false;
  if (right.rank() != 2 && matrices_of(left) != matrices_of(right)) return false;
  const Call call = node.call();
  double factor = is_layer ? call.get_float("scale", 1) : 1;
  bool transposes_a = is_layer && call.get_int("transpose_a", 0) != 0;
  bool transposes_b = is_layer && call.get_int("transpose_b", 0) != 0;
  bool found = is_product;
  for (Value** operand : {&a, &b}) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      const Node* const transpose = sole_maker_of(graph, *operand, "Transpose");
      if (swaps_last_axes(transpose)) {
        bool& flag = operand == &a ? transposes_a : transposes_b;
        flag = !flag;
        *operand = transpose->input(0);
        goes_on = found = true;
        continue;
      }
      const auto scale =
          graph.only_reader(**operand) != nullptr ? as_scale((*operand)->producer) : std::nullopt;
      if (!scale) continue;
      factor *= scale->number;
      *operand = scale->value;
      goes_on = found = true;
    }
  }
  if (!found) return false;
  NodeAttributes attributes;
  if (transposes_a) attributes.push_back(int_attribute("transpose_a", 1));
  if (transposes_b) attributes.push_back(int_attribute("transpose_b", 1));
  if (factor != 1) attributes.push_back(float_attribute("scale", factor));
  graph.substitute_layer(node, "MatMul", {a, b}, std::move(attributes)).bottoms = 2;
  return true;
}

}  // namespace crema::onnx
