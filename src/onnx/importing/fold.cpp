// Types, shapes and constants of values.
#include <algorithm>
#include <array>
#include <limits>

#include "onnx/importing/graph.hpp"
#include "onnx/importing/layer_node.hpp"

namespace crema::onnx {

namespace {

template <size_t N>
bool is_one_of(const std::string& op, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, op) != names.end();
}

// Operators whose result has the numbers of input 0.
bool moves_numbers(const Node& node) {
  static constexpr std::array<std::string_view, 6> kMoving = {"Identity", "Reshape",   "Transpose",
                                                              "Squeeze",  "Unsqueeze", "Flatten"};
  if (!node.message.domain().empty()) return false;
  if (is_one_of(node.op(), kMoving)) return true;
  return node.op() == "Cast" && node.output() != nullptr && is_float(node.output()->type());
}

// The most multiplications of a product of constants that is folded, as a rough bound.
constexpr double kMaxFoldedWork = 1e12;

bool is_heavy(const Node& node) {
  static constexpr std::array<std::string_view, 22> kHeavy = {
      "Attention",   "Conv",          "ConvInteger", "ConvTranspose", "DFT",    "DeformConv",
      "Det",         "Einsum",        "GRU",         "Gemm",          "LSTM",   "LRN",
      "MatMul",      "MatMulInteger", "MaxPool",     "AveragePool",   "LpPool", "NonMaxSuppression",
      "QLinearConv", "QLinearMatMul", "RNN",         "STFT"};
  return is_one_of(node.op(), kHeavy);
}

// Bytes of all wanted outputs, or more than any limit where that overflows.
double output_bytes(const Node& node) {
  double bytes = 0;
  for (const Value* output : node.outputs) {
    if (output == nullptr) continue;
    bytes += static_cast<double>(output->shape().count()) *
             static_cast<double>(element_size(output->type()));
  }
  return bytes;
}

double work_of(const Node& node) {
  double inputs = 0, outputs = 0;
  for (const Value* input : node.inputs) {
    if (input != nullptr) inputs += static_cast<double>(input->shape().count());
  }
  for (const Value* output : node.outputs) {
    if (output != nullptr) outputs += static_cast<double>(output->shape().count());
  }
  return inputs * outputs;
}

bool can_fold(const Node& node, const Operator& entry) {
  if (entry.evaluate == nullptr) return false;
  const bool has_constants = std::ranges::all_of(
      node.inputs, [](const Value* input) { return input == nullptr || input->is_constant(); });
  if (!has_constants) return false;
  if (is_heavy(node) && work_of(node) > kMaxFoldedWork) return false;
  return moves_numbers(node) || output_bytes(node) <= static_cast<double>(kMaxFoldedBytes);
}

void take_outputs(Node& node, const Call& call) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value* const output = node.outputs[i];
    if (output == nullptr) continue;
    output->known = call.output(i);
    if (!output->is_constant()) continue;
    if (moves_numbers(node) && node.input(0) != nullptr) output->weight = node.input(0)->weight;
    output->producer = nullptr;
    node.outputs[i] = nullptr;
    node.message.set_output(static_cast<int>(i), "");
  }
}

/// CastLike reads the type of its second input alone, which is known: with the type in an attribute
/// it folds.
void become_cast(Graph& graph, Node& node) {
  if (!node.is("CastLike") || node.input(0) == nullptr || node.input(1) == nullptr) return;
  const ElementType type = node.input(1)->type();
  if (!is_supported(type)) return;
  node.message.set_op_type("Cast");
  AttributeProto& to = *node.message.add_attribute();
  to.set_name("to");
  to.set_type(AttributeProto::INT);
  to.set_i(type);
  graph.set_input(node, 1, nullptr);
  node.inputs.resize(1);
  node.message.mutable_input()->DeleteSubrange(1, node.message.input_size() - 1);
}

}  // namespace

void infer_node(Graph& graph, Node& node) {
  try {
    const Operator* const entry = OperatorTable::instance().find(node.message.domain(), node.op());
    if (entry == nullptr) {
      infer_layer_node(graph, node);
      return;
    }
    become_cast(graph, node);
    Call call = node.call();
    infer(*entry, call);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != nullptr) node.outputs[i]->known = call.output(i);
    }
    if (can_fold(node, *entry)) {
      try {
        Call folding = node.call();
        evaluate(*entry, folding);
        take_outputs(node, folding);
        return;
      } catch (const Error&) {
        // It fails where the net runs, too, unless nothing reads it.
      }
    }
    take_outputs(node, call);
  } catch (const Error& error) {
    throw Error(described(node), ": ", error.message());
  }
}

void infer_and_fold(Graph& graph) {
  for (Node* node : std::vector<Node*>(graph.nodes)) infer_node(graph, *node);
  graph.remove_dead();
}

}  // namespace crema::onnx
