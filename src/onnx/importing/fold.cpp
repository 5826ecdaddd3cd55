// Types, shapes and constants of values.
#include <algorithm>
#include <array>

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
  if (node.op() == "Expand")
    return node.output() != nullptr &&
           node.input(0)->shape().count() == node.output()->shape().count();
  return node.op() == "Cast" && node.output() != nullptr && is_float(node.output()->type());
}

// Operators whose result shares the bytes of input 0.
bool shares_bytes(const Node& node) {
  return node.message.domain().empty() && moves_numbers(node) && node.op() != "Transpose" &&
         node.op() != "Cast";
}

// Slow operators that models do not apply to constants.
bool is_left_to_the_net(const Node& node) {
  static constexpr std::array<std::string_view, 4> kLeft = {"DeformConv", "Det", "MaxRoiPool",
                                                            "RoiAlign"};
  return is_one_of(node.op(), kLeft);
}

bool is_heavy(const Node& node) {
  static constexpr std::array<std::string_view, 20> kHeavy = {"Attention",     "AveragePool",
                                                              "Conv",          "ConvInteger",
                                                              "ConvTranspose", "DFT",
                                                              "GRU",           "LRN",
                                                              "LSTM",          "LpPool",
                                                              "MaxPool",       "Resize",
                                                              "MatMulInteger", "NonMaxSuppression",
                                                              "QLinearConv",   "RNN",
                                                              "STFT",          "QLinearMatMul",
                                                              "Col2Im",        "Unique"};
  return is_one_of(node.op(), kHeavy) &&
         (node.op() != "Resize" || node.call().get_int("antialias", 0) != 0);
}

double elements_of(const Value* value) {
  return value == nullptr ? 0 : static_cast<double>(value->shape().count());
}

// Multiplications or moves, as a rough bound.
double steps_of(const Node& node) {
  double inputs = 0, product = 1, outputs = 0;
  for (const Value* input : node.inputs) {
    inputs += elements_of(input);
    product *= std::max(elements_of(input), 1.0);
  }
  for (const Value* output : node.outputs) outputs += elements_of(output);
  if (node.op() == "Einsum") return product;
  if (node.op() == "MatMul" || node.op() == "Gemm") {
    const Shape& left = node.input(0)->shape();
    const bool by_rows = node.op() == "Gemm" && node.call().get_int("transA", 0) != 0;
    const int64_t depth = left.rank() == 0 ? 1 : left[by_rows ? 0 : -1];
    return inputs + outputs * static_cast<double>(depth);
  }
  if (is_heavy(node)) return inputs * std::max(outputs, 1.0);
  return inputs + outputs * static_cast<double>(1 + node.inputs.size());
}

// Whether the node is folded; then what that takes is counted.
bool takes_folding(Graph& graph, const Node& node, const Operator& entry) {
  if (entry.evaluate == nullptr || is_left_to_the_net(node)) return false;
  const bool has_constants = std::ranges::all_of(
      node.inputs, [](const Value* input) { return input == nullptr || input->is_constant(); });
  if (!has_constants) return false;
  // A weight that is repeated for each sample still learns.
  const bool repeats_weight = node.is("Expand") && !node.input(0)->weight.empty() &&
                              node.input(0)->shape() != node.output()->shape();
  if (repeats_weight) return false;
  if (shares_bytes(node)) return true;
  double bytes = 0, elements = 0;
  for (const Value* output : node.outputs) {
    if (output == nullptr) continue;
    elements += elements_of(output);
    bytes += elements_of(output) * static_cast<double>(element_size(output->type()));
  }
  // Evaluating takes 64 bits for each element meanwhile, whatever the type.
  constexpr double kBytesMeanwhile = 8;
  const double most = static_cast<double>(kMaxFoldedBytes) + kBytesMeanwhile * graph.loaded_bytes();
  return elements * kBytesMeanwhile <= most && graph.take_steps(steps_of(node)) &&
         graph.take_room(bytes);
}

// The values of a node Constant are the model's own, unless it has fewer bytes than they.
void count_constant(Graph& graph, const Node& node, const Array& values) {
  if (!node.is("Constant")) return;
  const auto bytes = static_cast<double>(values.bytes().size());
  const auto own = static_cast<double>(node.message.ByteSizeLong());
  graph.count_loaded(static_cast<size_t>(std::min(bytes, own)));
  graph.need_room(bytes);
}

void take_outputs(Graph& graph, Node& node, const Call& call) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value* const output = node.outputs[i];
    if (output == nullptr) continue;
    output->known = call.output(i);
    if (!output->is_constant()) continue;
    count_constant(graph, node, output->values());
    if (moves_numbers(node) && node.input(0) != nullptr) output->weight = node.input(0)->weight;
    output->producer = nullptr;
    node.outputs[i] = nullptr;
    node.message.set_output(static_cast<int>(i), "");
  }
}

}  // namespace

void infer_node(Graph& graph, Node& node) {
  try {
    const Operator* const entry = OperatorTable::instance().find(node.message.domain(), node.op());
    if (entry == nullptr && node.message.domain() != kLayerDomain)
      throw Error("Crema does not know this operator");
    if (entry == nullptr) return infer_layer_node(graph, node);
    Call call = node.call();
    infer(*entry, call);
    bool is_known = true;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == nullptr) continue;
      node.outputs[i]->known = call.output(i);
      is_known = is_known && call.output(i).constant.has_value();
    }
    if (!is_known && takes_folding(graph, node, *entry)) {
      try {
        Call folding = node.call();
        evaluate(*entry, folding);
        take_outputs(graph, node, folding);
        return;
      } catch (const Error&) {
        // It fails where the net runs, too, unless nothing reads it.
      }
    }
    take_outputs(graph, node, call);
  } catch (const Error& error) {
    throw Error(described(node), ": ", said_of_operator(node.op(), error));
  }
}

void infer_and_fold(Graph& graph) {
  for (Node* node : std::vector<Node*>(graph.nodes.begin(), graph.nodes.end()))
    infer_node(graph, *node);
  graph.remove_dead();
}

}  // namespace crema::onnx
