// Transpose and Reshape behind what does not mind the order of axes, so that they meet others and
// are joined (moves.cpp): nets with channels last are nets with channels first then.
#include <algorithm>
#include <array>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/index_moves.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

// Operators of each element, beside Add and so on.
bool is_pointwise(const Node& node) {
  static constexpr std::array<std::string_view, 29> kFunctions = {
      "Abs",       "Celu",    "Clip",  "Cos",         "Dropout",    "Elu",
      "Erf",       "Exp",     "Gelu",  "HardSigmoid", "HardSwish",  "Identity",
      "LeakyRelu", "Log",     "Mish",  "Neg",         "Reciprocal", "Relu",
      "Selu",      "Sigmoid", "Sin",   "Softplus",    "Softsign",   "Sqrt",
      "Swish",     "Tanh",    "Floor", "Ceil",        "Cast"};
  return node.message.domain().empty() && node.outputs.size() == 1 &&
         std::ranges::find(kFunctions, node.op()) != kFunctions.end();
}

NodeAttributes attributes_of(const Node& node) {
  return {node.message.attribute().begin(), node.message.attribute().end()};
}

// The node on `inputs` in place of its own, with the same attributes; its result has another order.
Value& computed_before(Graph& graph, Node& node, const std::vector<Value*>& inputs,
                       const Shape& shape, NodeAttributes attributes) {
  Value& made = graph.add_value(node.output()->name + "_" + node.op());
  made.known.type = node.output()->type();
  made.known.shape = shape;
  Node& added = node.message.domain() == kLayerDomain
                    ? graph.add_layer(&node, node.op(), inputs, {&made}, std::move(attributes))
                    : graph.add_node(&node, node.op(), inputs, {&made}, std::move(attributes));
  added.opset = node.opset;
  added.message.set_name(node.message.name());
  return made;
}

// A constant operand in the order from before the Transpose; null if it cannot be.
Value* constant_before(Graph& graph, Value& constant, const std::vector<int64_t>& perm) {
  const Shape& shape = constant.shape();
  const auto rank = static_cast<int>(perm.size());
  if (shape.count() == 1) return &constant;
  if (shape.rank() > rank || shape.count() > kMaxMovedElements) return nullptr;
  std::vector<int64_t> dims(static_cast<size_t>(rank - shape.rank()), 1);
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  const Shape padded(dims);
  const std::vector<int64_t> strides = strides_of(padded);
  // Axis perm[i] of the operand from before is axis i of the constant.
  std::vector<int64_t> before(perm.size()), steps(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    before[static_cast<size_t>(perm[i])] = dims[i];
    steps[static_cast<size_t>(perm[i])] = strides[i];
  }
  const Shape target(before);
  std::vector<int64_t> sources(static_cast<size_t>(target.count()), 0);
  std::vector<int64_t> place(perm.size(), 0);
  int64_t index = 0;
  for (int64_t& source : sources) {
    source = index;
    for (size_t axis = perm.size(); axis-- > 0;) {
      index += steps[axis];
      if (++place[axis] < before[axis]) break;
      index -= steps[axis] * before[axis];
      place[axis] = 0;
    }
  }
  Value& result =
      graph.add_constant(constant.name, constant.values().reshaped(padded).taken(target, sources));
  result.weight = constant.weight;
  return &result;
}

// The shape from before a Transpose to shape `after`.
Shape shape_before(const Shape& after, const std::vector<int64_t>& perm) {
  Shape before = after;
  for (size_t i = 0; i < perm.size(); ++i)
    before.set(static_cast<int>(perm[i]), after[static_cast<int>(i)]);
  return before;
}

bool is_of_two(const Node& node) {
  static constexpr std::array<std::string_view, 4> kOfTwo = {"Add", "Sub", "Mul", "Div"};
  return node.message.domain().empty() && node.inputs.size() == 2 &&
         std::ranges::find(kOfTwo, node.op()) != kOfTwo.end();
}

bool is_transposed_by(const Value* value, const std::vector<int64_t>& perm) {
  const Node* const transpose = maker_of(value, "Transpose");
  return transpose != nullptr && !transpose->input(0)->is_constant() && perm_of(*transpose) == perm;
}

bool are_transposed_by(const std::vector<Value*>& values, const std::vector<int64_t>& perm) {
  return std::ranges::all_of(values,
                             [&](const Value* value) { return is_transposed_by(value, perm); });
}

// Axes of a ReduceMean or ReduceMax that are constants, counted from the front.
std::optional<std::vector<int>> reduced_axes(const Node& node) {
  const Call call = node.call();
  if (node.opset >= 18 && !call.is_constant(1)) return std::nullopt;
  const auto axes = call.ints_of("axes", 1, 18);
  if (!axes || axes->empty()) return std::nullopt;
  return call.canonical(*axes, node.input(0)->shape().rank());
}

// The axes that a reduction without keepdims leaves, from before the Transpose.
std::vector<int64_t> kept_before(const std::vector<int>& reduced,
                                 const std::vector<int64_t>& perm) {
  std::vector<int64_t> kept;
  for (size_t axis = 0; axis < perm.size(); ++axis) {
    if (std::ranges::count(reduced, static_cast<int>(axis)) == 0) kept.push_back(perm[axis]);
  }
  return kept;
}

// Pads of all axes, the begins first, of a Pad whose settings are constants.
std::optional<std::vector<int64_t>> pads_of(const Node& node) {
  const Call call = node.call();
  if (node.opset >= 11 && !call.is_constant(1)) return std::nullopt;
  if (call.has(2) && !call.is_constant(2)) return std::nullopt;
  if (call.has(3) && !call.is_constant(3)) return std::nullopt;
  const auto given = call.ints_of("pads", 1, 11);
  const auto rank = static_cast<size_t>(node.input(0)->shape().rank());
  if (!given) return std::nullopt;
  if (!call.has(3)) return given->size() == 2 * rank ? given : std::nullopt;
  const std::vector<int64_t> axes = call.constant(3, "axes").integers();
  if (given->size() != 2 * axes.size()) return std::nullopt;
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(call.canonical(axes[i], static_cast<int>(rank)));
    pads[axis] = (*given)[i];
    pads[rank + axis] = (*given)[axes.size() + i];
  }
  return pads;
}

// Whether a node that reads what Transposes of this order make can compute in front of them.
bool can_precede(const Node& node, const std::vector<int64_t>& perm) {
  if (node.is("Transpose")) {
    const std::vector<int64_t> next = perm_of(node);
    for (size_t i = 0; i < perm.size(); ++i) {
      if (perm[static_cast<size_t>(next[i])] != static_cast<int64_t>(i)) return false;
    }
    return true;
  }
  if (is_pointwise(node)) return true;
  if (is_of_two(node)) {
    return node.output()->shape().rank() == static_cast<int>(perm.size()) &&
           std::ranges::all_of(node.inputs, [&](const Value* input) {
             return input != nullptr && (input->is_constant() || is_transposed_by(input, perm));
           });
  }
  if (node.is("Concat")) return are_transposed_by(node.inputs, perm);
  if (node.is("Pad")) return pads_of(node).has_value();
  if (node.is("ReduceMean") || node.is("ReduceMax")) {
    const auto axes = reduced_axes(node);
    return axes && (node.call().get_int("keepdims", 1) != 0 ||
                    std::ranges::is_sorted(kept_before(*axes, perm)));
  }
  return false;
}

// The Transpose that makes the value and goes when its readers compute in front of it; else null.
const Node* transpose_that_goes(const Graph& graph, const Value* value) {
  const Node* const transpose = maker_of(value, "Transpose");
  if (transpose == nullptr || transpose->input(0)->is_constant() || value->is_output)
    return nullptr;
  const std::vector<Node*>& readers = graph.readers(*value);
  if (readers.size() == 1) return transpose;
  const std::vector<int64_t> perm = perm_of(*transpose);
  const bool all_can =
      std::ranges::all_of(readers, [&](const Node* node) { return can_precede(*node, perm); });
  return all_can ? transpose : nullptr;
}

void put_transpose(Graph& graph, Node& node, Value& x, const std::vector<int64_t>& perm) {
  graph.substitute(node, "Transpose", {&x}, {ints_attribute("perm", perm)});
}

// Functions of each element, sums and products.
bool sink_through_elements(Graph& graph, Node& node) {
  const bool is_function = is_pointwise(node);
  if (!is_function && !is_of_two(node)) return false;
  const Node* transpose = transpose_that_goes(graph, node.input(0));
  if (transpose == nullptr && !is_function) transpose = transpose_that_goes(graph, node.input(1));
  if (transpose == nullptr) return false;
  const std::vector<int64_t> perm = perm_of(*transpose);
  if (node.output()->shape().rank() != static_cast<int>(perm.size())) return false;
  std::vector<Value*> inputs;
  for (Value* const input : node.inputs) {
    if (input == transpose->output()) {
      inputs.push_back(transpose->input(0));
    } else if (is_function || input == nullptr) {
      inputs.push_back(input);
    } else if (input->is_constant()) {
      inputs.push_back(constant_before(graph, *input, perm));
      if (inputs.back() == nullptr) return false;
    } else {
      const Node* const other = transpose_that_goes(graph, input);
      if (other == nullptr || perm_of(*other) != perm) return false;
      inputs.push_back(other->input(0));
    }
  }
  Value& before = computed_before(graph, node, inputs, shape_before(node.output()->shape(), perm),
                                  attributes_of(node));
  put_transpose(graph, node, before, perm);
  return true;
}

// Layers that treat each vector of the last axis alone.
bool is_by_rows(const Node& node) {
  if (node.is_layer("InnerProduct")) {
    const int64_t axis = node.call().get_int("axis", 1);
    return axis == -1 || node.input(0)->shape().rank() == axis + 1;
  }
  if (node.is("LayerNormalization") && node.outputs.size() == 1) {
    const int64_t axis = node.call().get_int("axis", -1);
    return axis == -1 || node.input(0)->shape().rank() == axis + 1;
  }
  return false;
}

// Transpose or Reshape that leaves the last axis as it is, in front of such a layer: behind it.
bool sink_through_rows(Graph& graph, Node& node) {
  if (!is_by_rows(node)) return false;
  Value* const moved = node.input(0);
  Node* const move = moved->producer;
  if (move == nullptr || !is_move(*move) || graph.only_reader(*moved) == nullptr) return false;
  Value& x = *move->input(0);
  const Shape &before = x.shape(), &after = moved->shape();
  if (before.rank() < 2 || after.rank() < 2 || before[-1] != after[-1]) return false;
  const bool is_transpose = move->is("Transpose");
  if (!is_transpose && moves_open_batch(graph, *move)) return false;
  std::vector<int64_t> perm;
  if (is_transpose) {
    perm = perm_of(*move);
    if (perm.back() != before.rank() - 1) return false;
  }
  Shape shape = before;
  shape.set(before.rank() - 1, node.output()->shape()[-1]);
  NodeAttributes attributes;
  for (const AttributeProto& attribute : node.message.attribute()) {
    if (attribute.name() != "axis") attributes.push_back(attribute);
  }
  if (before.rank() != 2 || !node.is_layer("InnerProduct"))
    attributes.push_back(int_attribute("axis", -1));
  std::vector<Value*> inputs = node.inputs;
  inputs[0] = &x;
  Value& computed = computed_before(graph, node, inputs, shape, std::move(attributes));
  if (is_transpose) {
    graph.substitute(node, "Transpose", {&computed}, {ints_attribute("perm", perm)});
  } else {
    Value& to =
        index_constant(graph, node.output()->name + "_shape", node.output()->shape().dims());
    graph.substitute(node, "Reshape", {&computed, &to}, {int_attribute("allowzero", 1)});
  }
  return true;
}

// Concat of what was transposed in one way.
bool sink_through_concat(Graph& graph, Node& node) {
  if (!node.is("Concat") || node.inputs.size() < 2) return false;
  const Node* const first = maker_of(node.input(0), "Transpose");
  if (first == nullptr || !are_transposed_by(node.inputs, perm_of(*first))) return false;
  const std::vector<int64_t> perm = perm_of(*first);
  std::vector<Value*> inputs;
  for (const Value* input : node.inputs) {
    const Node* const transpose = transpose_that_goes(graph, input);
    if (transpose == nullptr) return false;
    inputs.push_back(transpose->input(0));
  }
  const Call call = node.call();
  const int axis = call.canonical(call.need_int("axis"), node.output()->shape().rank());
  const int64_t before = perm[static_cast<size_t>(axis)];
  Value& joined = computed_before(graph, node, inputs, shape_before(node.output()->shape(), perm),
                                  {int_attribute("axis", before)});
  put_transpose(graph, node, joined, perm);
  return true;
}

// The mean of what was transposed: over the axes from before.
bool sink_through_mean(Graph& graph, Node& node) {
  if (!node.is("ReduceMean") && !node.is("ReduceMax")) return false;
  const Node* const transpose = transpose_that_goes(graph, node.input(0));
  if (transpose == nullptr) return false;
  const auto axes = reduced_axes(node);
  if (!axes) return false;
  const std::vector<int64_t> perm = perm_of(*transpose);
  const bool keeps = node.call().get_int("keepdims", 1) != 0;
  if (!keeps && !std::ranges::is_sorted(kept_before(*axes, perm))) return false;
  std::vector<int64_t> before;
  for (const int axis : *axes) before.push_back(perm[static_cast<size_t>(axis)]);
  std::ranges::sort(before);
  Value& constant = index_constant(graph, node.output()->name + "_axes", before);
  if (!keeps) {
    graph.substitute(node, node.op(), {transpose->input(0), &constant},
                     {int_attribute("keepdims", 0)});
    return true;
  }
  Value& mean = graph.add_step(&node, node.op(), {transpose->input(0), &constant});
  put_transpose(graph, node, mean, perm);
  return true;
}

bool sink_through_pad(Graph& graph, Node& node) {
  if (!node.is("Pad")) return false;
  const Node* const transpose = transpose_that_goes(graph, node.input(0));
  if (transpose == nullptr) return false;
  const auto pads = pads_of(node);
  if (!pads) return false;
  const std::vector<int64_t> perm = perm_of(*transpose);
  std::vector<int64_t> before(pads->size());
  for (size_t i = 0; i < perm.size(); ++i) {
    const auto axis = static_cast<size_t>(perm[i]);
    before[axis] = (*pads)[i];
    before[perm.size() + axis] = (*pads)[perm.size() + i];
  }
  const Call call = node.call();
  std::vector<Value*> inputs = {transpose->input(0),
                                &index_constant(graph, node.output()->name + "_pads", before)};
  const double value = node.opset < 11 ? call.get_float("value", 0) : 0;
  if (value != 0) {
    inputs.push_back(&graph.add_constant(node.output()->name + "_value",
                                         Array::scalar(node.output()->type(), value)));
  } else if (node.opset >= 11 && call.has(2)) {
    inputs.push_back(node.input(2));
  }
  Value& padded = graph.add_step(&node, "Pad", inputs,
                                 {string_attribute("mode", call.get_string("mode", "constant"))});
  put_transpose(graph, node, padded, perm);
  return true;
}

}  // namespace

bool sink_moves(Graph& graph, Node& node) {
  return sink_through_elements(graph, node) || sink_through_rows(graph, node) ||
         sink_through_concat(graph, node) || sink_through_mean(graph, node) ||
         sink_through_pad(graph, node);
}

}  // namespace crema::onnx
