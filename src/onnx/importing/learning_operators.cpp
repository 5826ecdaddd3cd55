#include "onnx/importing/learning_operators.hpp"

#include "onnx/importing/attributes.hpp"

namespace crema::onnx {

namespace {

constexpr int64_t kSamplesAxis = 1;

// Values of the last axis of input 0 at the indices in input 1.
void add_extractor(Graph& graph, Value& x, Value& indices, Value& y) {
  Value& flat_shape =
      graph.add_constant("indices_shape", Array::of_indices(std::vector<int64_t>{-1}));
  Value& flat = graph.add_step(nullptr, "Reshape", {&indices, &flat_shape});
  if (x.shape().rank() > 1) {
    graph.add_node(nullptr, "Gather", {&x, &flat}, {&y}, {int_attribute("axis", -1)});
    return;
  }
  Value& taken = graph.add_step(nullptr, "Gather", {&x, &flat}, {int_attribute("axis", -1)});
  Value& axes = graph.add_constant("extracted_axes", Array::of_indices(std::vector<int64_t>{0}));
  graph.add_node(nullptr, "Unsqueeze", {&taken, &axes}, {&y});
}

void add_normalizer(Graph& graph, const std::string& norm, Value& x, Value& y) {
  if (norm != "MAX") {
    graph.add_node(nullptr, "LpNormalization", {&x}, {&y},
                   {int_attribute("axis", kSamplesAxis), int_attribute("p", norm == "L1" ? 1 : 2)});
    return;
  }
  Value& axes =
      graph.add_constant("norm_axes", Array::of_indices(std::vector<int64_t>{kSamplesAxis}));
  Value& greatest = graph.add_step(nullptr, "ReduceMax", {&x, &axes});
  graph.add_node(nullptr, "Div", {&x, &greatest}, {&y});
}

void add_scaler(Graph& graph, const Call& call, Value& x, Value& y) {
  const auto constant = [&](std::string_view name) -> Value& {
    const std::vector<double> values = call.get_floats(name);
    if (values.empty()) call.fail("attribute ", name, " is missing");
    return graph.add_constant(
        text(y.name, "_", name),
        Array::of_doubles(TensorProto::FLOAT, Shape{static_cast<int64_t>(values.size())}, values));
  };
  Value& shifted = graph.add_step(nullptr, "Sub", {&x, &constant("offset")});
  graph.add_node(nullptr, "Mul", {&shifted, &constant("scale")}, {&y});
}

}  // namespace

bool is_learning_operator(const NodeProto& node) {
  return node.domain() == "ai.onnx.ml" &&
         (node.op_type() == "ArrayFeatureExtractor" || node.op_type() == "Normalizer" ||
          node.op_type() == "Scaler");
}

void add_learning_operator(Graph& graph, const NodeProto& node, const std::vector<Value*>& inputs,
                           const std::vector<Value*>& outputs) {
  const bool is_extractor = node.op_type() == "ArrayFeatureExtractor";
  const size_t needed = is_extractor ? 2 : 1;
  bool is_complete = inputs.size() == needed && outputs.size() == 1 && outputs[0] != nullptr;
  for (const Value* input : inputs) is_complete = is_complete && input != nullptr;
  if (!is_complete) throw Error(described(node), " needs ", needed, " inputs and one output");
  try {
    if (is_extractor) {
      add_extractor(graph, *inputs[0], *inputs[1], *outputs[0]);
    } else if (node.op_type() == "Normalizer") {
      const Call call(node, 1, {});
      add_normalizer(graph, call.get_string("norm", "MAX"), *inputs[0], *outputs[0]);
    } else {
      add_scaler(graph, Call(node, 1, {}), *inputs[0], *outputs[0]);
    }
  } catch (const Error& error) {
    throw Error(described(node), ": ", said_of_operator(node.op_type(), error));
  }
}

}  // namespace crema::onnx
