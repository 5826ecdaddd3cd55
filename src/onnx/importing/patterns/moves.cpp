// Chains of Reshape and Transpose: joined where they are one, and moved behind what does not mind
// the order, so that they meet.
#include <algorithm>
#include <array>
#include <numeric>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/index_moves.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

// The moves that end in the node, the first one first; each is read by the next alone.
std::vector<Node*> chain_of(const Graph& graph, Node& node) {
  constexpr size_t kLongestChain = 16;
  std::vector<Node*> chain = {&node};
  while (chain.size() < kLongestChain) {
    Value* const from = chain.front()->input(0);
    Node* const producer = from->producer;
    if (producer == nullptr || !is_move(*producer) || graph.only_reader(*from) == nullptr) break;
    chain.insert(chain.begin(), producer);
  }
  return chain;
}

void put_reshape(Graph& graph, Node& node, Value& x) {
  Value& shape =
      index_constant(graph, node.output()->name + "_shape", node.output()->shape().dims());
  graph.substitute(node, "Reshape", {&x, &shape}, {int_attribute("allowzero", 1)});
}

bool is_in_order(const std::vector<int64_t>& indices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// Element i of a tensor whose channels were shuffled in groups, or blocks became channels: by a
// function that gives its source.
template <class Source>
bool are_sources(const std::vector<int64_t>& indices, const Source& source) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != source(static_cast<int64_t>(i))) return false;
  }
  return true;
}

// The groups of a channel shuffle of (N, C, ...); 0 if it is none.
int64_t shuffled_groups(const std::vector<int64_t>& indices, const Shape& x) {
  if (x.rank() < 3 || x[1] < 4) return 0;
  const int64_t channels = x[1], positions = x.count(2);
  if (positions == 0 || static_cast<int64_t>(indices.size()) <= positions) return 0;
  // Channel 1 of the result is the first one of the second group.
  const int64_t width = indices[static_cast<size_t>(positions)] / positions;
  if (width < 2 || channels % width != 0) return 0;
  const int64_t groups = channels / width;
  const bool is_shuffle = are_sources(indices, [&](int64_t i) {
    const int64_t position = i % positions, channel = i / positions % channels;
    const int64_t sample = i / (positions * channels);
    return (sample * channels + channel % groups * width + channel / groups) * positions + position;
  });
  return is_shuffle ? groups : 0;
}

// (N, C r^2, H, W) to (N, C, H r, W r), by PyTorch's order of channels; the factor, or 0.
int64_t pixel_factor(const std::vector<int64_t>& indices, const Shape& from, const Shape& to) {
  if (from.rank() != 4 || to.rank() != 4 || from[2] == 0 || to[2] % from[2] != 0) return 0;
  const int64_t factor = to[2] / from[2];
  if (factor < 2 || to[3] != from[3] * factor || from[1] != to[1] * factor * factor) return 0;
  const bool is_shuffle = are_sources(indices, [&](int64_t i) {
    const int64_t w = i % to[3], h = i / to[3] % to[2], rest = i / (to[3] * to[2]);
    const int64_t channel = rest % to[1], sample = rest / to[1];
    const int64_t source = (channel * factor + h % factor) * factor + w % factor;
    return ((sample * from[1] + source) * from[2] + h / factor) * from[3] + w / factor;
  });
  return is_shuffle ? factor : 0;
}

bool join_pair(Graph& graph, Node& node) {
  Node* const first = node.input(0)->producer;
  if (first == nullptr || !is_move(*first) || graph.only_reader(*node.input(0)) == nullptr)
    return false;
  Value& x = *first->input(0);
  if (node.is("Transpose") && first->is("Transpose")) {
    const Call inner = first->call(), outer = node.call();
    const std::vector<int64_t> before = inner.get_ints("perm"), after = outer.get_ints("perm");
    if (before.size() != after.size() || before.empty()) return false;
    std::vector<int64_t> order;
    for (const int64_t axis : after) order.push_back(before[static_cast<size_t>(axis)]);
    graph.substitute(node, "Transpose", {&x}, {ints_attribute("perm", order)});
    return true;
  }
  if (node.is("Transpose") || first->is("Transpose")) return false;
  put_reshape(graph, node, x);
  return true;
}

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

std::vector<int64_t> perm_of(const Node& transpose) {
  const int rank = transpose.input(0)->shape().rank();
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return transpose.call().get_ints("perm", reversed);
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

// Transpose in front of operands of one sum, product or function: behind it.
bool sink_through_elements(Graph& graph, Node& node) {
  static constexpr std::array<std::string_view, 4> kOfTwo = {"Add", "Sub", "Mul", "Div"};
  const bool is_function = is_pointwise(node);
  const bool is_of_two = node.message.domain().empty() && node.inputs.size() == 2 &&
                         std::ranges::find(kOfTwo, node.op()) != kOfTwo.end();
  if (!is_function && !is_of_two) return false;
  const Node* const first = sole_maker_of(graph, node.input(0), "Transpose");
  const Node* const second = is_of_two ? sole_maker_of(graph, node.input(1), "Transpose") : nullptr;
  const Node* const transpose = first != nullptr ? first : second;
  if (transpose == nullptr || transpose->input(0)->is_constant()) return false;
  const std::vector<int64_t> perm = perm_of(*transpose);
  if (node.output()->shape() != transpose->output()->shape()) return false;
  std::vector<Value*> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Value* const input = node.inputs[i];
    if (input == transpose->output()) {
      inputs.push_back(transpose->input(0));
    } else if (is_function || input == nullptr) {
      inputs.push_back(input);
    } else if (input->is_constant()) {
      inputs.push_back(constant_before(graph, *input, perm));
      if (inputs.back() == nullptr) return false;
    } else {
      const Node* const other = sole_maker_of(graph, input, "Transpose");
      if (other == nullptr || perm_of(*other) != perm ||
          other->input(0)->shape() != transpose->input(0)->shape())
        return false;
      inputs.push_back(other->input(0));
    }
  }
  Value& before =
      computed_before(graph, node, inputs, transpose->input(0)->shape(), attributes_of(node));
  graph.substitute(node, "Transpose", {&before}, {ints_attribute("perm", perm)});
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
    put_reshape(graph, node, computed);
  }
  return true;
}

// Concat of what was transposed in one way.
bool sink_through_concat(Graph& graph, Node& node) {
  if (!node.is("Concat") || node.inputs.size() < 2) return false;
  std::vector<int64_t> perm;
  std::vector<Value*> inputs;
  for (Value* input : node.inputs) {
    const Node* const transpose = sole_maker_of(graph, input, "Transpose");
    if (transpose == nullptr) return false;
    if (perm.empty()) perm = perm_of(*transpose);
    if (perm_of(*transpose) != perm) return false;
    inputs.push_back(transpose->input(0));
  }
  const Call call = node.call();
  const int axis = call.canonical(call.need_int("axis"), node.output()->shape().rank());
  Shape shape = inputs[0]->shape();
  const int64_t before = perm[static_cast<size_t>(axis)];
  shape.set(static_cast<int>(before), node.output()->shape()[axis]);
  Value& joined = computed_before(graph, node, inputs, shape, {int_attribute("axis", before)});
  graph.substitute(node, "Transpose", {&joined}, {ints_attribute("perm", perm)});
  return true;
}

// The mean of what was transposed: over the axes from before.
bool sink_through_mean(Graph& graph, Node& node) {
  if (!node.is("ReduceMean") && !node.is("ReduceMax")) return false;
  const Node* const transpose = sole_maker_of(graph, node.input(0), "Transpose");
  if (transpose == nullptr) return false;
  const Call call = node.call();
  if (node.opset >= 18 && !call.is_constant(1)) return false;
  const auto axes = call.ints_of("axes", 1, 18);
  if (!axes || axes->empty()) return false;
  const std::vector<int64_t> perm = perm_of(*transpose);
  std::vector<int64_t> before;
  std::vector<bool> is_reduced(perm.size(), false);
  for (const int axis : call.canonical(*axes, static_cast<int>(perm.size()))) {
    before.push_back(perm[static_cast<size_t>(axis)]);
    is_reduced[static_cast<size_t>(axis)] = true;
  }
  std::ranges::sort(before);
  const bool keeps = call.get_int("keepdims", 1) != 0;
  std::vector<int64_t> kept;
  for (size_t axis = 0; axis < perm.size(); ++axis) {
    if (!is_reduced[axis]) kept.push_back(perm[axis]);
  }
  Value& constant = index_constant(graph, node.output()->name + "_axes", before);
  if (!keeps) {
    if (!std::ranges::is_sorted(kept)) return false;
    graph.substitute(node, node.op(), {transpose->input(0), &constant},
                     {int_attribute("keepdims", 0)});
    return true;
  }
  Value& mean = graph.add_step(&node, node.op(), {transpose->input(0), &constant});
  graph.substitute(node, "Transpose", {&mean}, {ints_attribute("perm", perm)});
  return true;
}

}  // namespace

bool join_moves(Graph& graph, Node& node) {
  if (!is_move(node)) return false;
  // The last one of a chain: what follows is no move.
  const Node* const reader = graph.only_reader(*node.output());
  if (reader != nullptr && is_move(*reader)) return false;
  const std::vector<Node*> chain = chain_of(graph, node);
  Value& x = *chain.front()->input(0);
  Value& y = *node.output();
  if (chain.size() == 1 && node.is("Transpose") == false) return false;
  const auto indices = moved_indices(graph, chain, y);
  if (!indices) return chain.size() > 1 && join_pair(graph, node);
  if (is_in_order(*indices)) {
    if (chain.size() == 1 && x.shape() != y.shape()) {
      // A Transpose of axes of size 1 is a Reshape, which costs nothing; the batch stays in front.
      if (x.shape().rank() == 0 || x.shape()[0] != y.shape()[0]) return false;
      put_reshape(graph, node, x);
      return true;
    }
    if (x.shape() == y.shape()) {
      graph.replace(y, x);
      return !graph.is_wanted(y);
    }
    put_reshape(graph, node, x);
    return true;
  }
  if (chain.size() == 1) return false;
  if (const auto order = as_transpose(*indices, x.shape(), y.shape())) {
    graph.substitute(node, "Transpose", {&x}, {ints_attribute("perm", *order)});
    return true;
  }
  if (x.shape() == y.shape()) {
    if (const int64_t groups = shuffled_groups(*indices, x.shape()); groups > 1) {
      graph.substitute_layer(node, "ShuffleChannel", {&x}, {int_attribute("group", groups)});
      return true;
    }
  }
  if (const int64_t factor = pixel_factor(*indices, x.shape(), y.shape()); factor > 1) {
    graph.substitute(node, "DepthToSpace", {&x},
                     {int_attribute("blocksize", factor), string_attribute("mode", "CRD")});
    return true;
  }
  return join_pair(graph, node);
}

bool sink_moves(Graph& graph, Node& node) {
  return sink_through_elements(graph, node) || sink_through_rows(graph, node) ||
         sink_through_concat(graph, node) || sink_through_mean(graph, node);
}

}  // namespace crema::onnx
