// Constants that stand beside the samples of a batch, as the class token of a transformer.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

// Sizes of a layer Expand.
constexpr int64_t kSizeOfBottom = -1, kSizeOfSecondBottom = -2;

// Whether axis 0 of the value has the size of the batch that the model takes.
bool has_batch(const Graph& graph, const Value& value) {
  return std::ranges::any_of(graph.inputs, [&](const Value* input) {
    return input->shape().rank() > 0 && input->shape()[0] == value.shape()[0];
  });
}

// What the constant, or the weight that Expand repeats, has for one sample; null if samples differ.
Value* one_sample_of(Graph& graph, Value& operand) {
  if (const Node* const expand = maker_of(&operand, "Expand")) {
    Value* const weight = expand->input(0);
    const int added = operand.shape().rank() - weight->shape().rank();
    return weight->is_constant() && (added > 0 || weight->shape()[0] == 1) ? weight : nullptr;
  }
  if (!operand.is_constant()) return nullptr;
  const int64_t samples = operand.shape()[0];
  if (samples == 1) return &operand;
  const Array& values = operand.values();
  const auto bytes = values.bytes();
  const size_t size = bytes.size() / static_cast<size_t>(samples);
  for (size_t begin = size; begin < bytes.size(); begin += size) {
    if (!std::ranges::equal(bytes.subspan(0, size), bytes.subspan(begin, size))) return nullptr;
  }
  Shape shape = operand.shape();
  shape.set(0, 1);
  const std::vector<std::byte> first(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
  Value& one = graph.add_constant(operand.name, Array(values.type(), shape, first));
  one.weight = operand.weight;
  return &one;
}

}  // namespace

bool follow_batch(Graph& graph, Node& node) {
  if (!node.is("Concat")) return false;
  const Shape& whole = node.output()->shape();
  const Call call = node.call();
  if (whole.rank() < 2 || whole.count() == 0 || !has_batch(graph, *node.output())) return false;
  if (call.canonical(call.need_int("axis"), whole.rank()) == 0) return false;
  const auto is_computed = [](const Value* value) {
    const Node* const expand = maker_of(value, "Expand");
    return !value->is_constant() && !value->known.is_bound &&
           (expand == nullptr || !expand->input(0)->is_constant());
  };
  const auto samples = std::ranges::find_if(node.inputs, is_computed);
  if (samples == node.inputs.end()) return false;
  Value& batch = **samples;
  bool found = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Value& operand = *node.inputs[i];
    if (is_computed(&operand) || operand.shape().count() == 0) continue;
    Value* const one = one_sample_of(graph, operand);
    if (one == nullptr) continue;
    std::vector<int64_t> dims = {kSizeOfSecondBottom};
    const int added = operand.shape().rank() - one->shape().rank();
    for (int axis = 1; axis < operand.shape().rank(); ++axis) {
      const bool stays = axis >= added && one->shape()[axis - added] == operand.shape()[axis];
      dims.push_back(stays ? kSizeOfBottom : operand.shape()[axis]);
    }
    Value& each = graph.add_layer_step(&node, "Expand", {one, &batch}, operand.type(),
                                       operand.shape(), {ints_attribute("dim", dims)});
    each.producer->message.set_name(
        text(one->weight.empty() ? operand.name : one->weight, "_each"));
    graph.set_input(node, i, &each);
    found = true;
  }
  return found;
}

}  // namespace crema::onnx
