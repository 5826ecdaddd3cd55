// Models for tests of importing, built node by node, and what they compute: as nets, and operator
// by operator.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "crema/random.hpp"
#include "onnx/importing/attributes.hpp"
#include "onnx/importing/graph.hpp"
#include "onnx/importing/import.hpp"

namespace crema::onnx::test {

using Arrays = std::map<std::string, Array, std::less<>>;

/// Numbers from -1 to 1 that look random, and are the same in each run.
inline std::vector<double> some_numbers(int64_t count, int seed = 1) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const double x = std::sin(static_cast<double>(i + 1) * 12.9898 + seed * 78.233) * 43758.5453;
    numbers.push_back(2 * (x - std::floor(x)) - 1);
  }
  return numbers;
}

inline Array some_array(const Shape& shape, int seed = 1) {
  return Array::of_doubles(TensorProto::FLOAT, shape, some_numbers(shape.count(), seed));
}

class TestModel {
 public:
  explicit TestModel(int64_t opset = 17) {
    message.set_ir_version(8);
    message.add_opset_import()->set_version(opset);
  }

  /// Axes of size -1 are open.
  TestModel& input(const std::string& name, const std::vector<int64_t>& dims,
                   ElementType type = TensorProto::FLOAT) {
    describe(*graph().add_input(), name, dims, type);
    return *this;
  }
  TestModel& weight(const std::string& name, const Array& values) {
    *graph().add_initializer() = message_of(values, name);
    return *this;
  }
  TestModel& weight(const std::string& name, const Shape& shape) {
    return weight(name, some_array(shape, static_cast<int>(name.size()) + ++seed_));
  }
  TestModel& number(const std::string& name, double value) {
    return weight(name, Array::scalar(TensorProto::FLOAT, value));
  }
  TestModel& indices(const std::string& name, const std::vector<int64_t>& values) {
    return weight(name, Array::of_indices(values));
  }
  TestModel& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs,
                  const std::vector<AttributeProto>& attributes = {},
                  const std::string& name = {}) {
    NodeProto& added = *graph().add_node();
    added.set_op_type(op);
    if (!name.empty()) added.set_name(name);
    for (const std::string& each : inputs) added.add_input(each);
    for (const std::string& each : outputs) added.add_output(each);
    for (const AttributeProto& each : attributes) *added.add_attribute() = each;
    return *this;
  }
  TestModel& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  GraphProto& graph() { return *message.mutable_graph(); }

  ModelProto message;

 private:
  static void describe(ValueInfoProto& info, const std::string& name,
                       const std::vector<int64_t>& dims, ElementType type) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const int64_t dim : dims) {
      auto& added = *tensor.mutable_shape()->add_dim();
      if (dim >= 0) added.set_dim_value(dim);
      if (dim < 0) added.set_dim_param("N");
    }
  }

  int seed_ = 0;
};

/// Types of the net's layers, without inputs, in their order: "Convolution ReLU".
inline std::string types_of(const NetParameter& net) {
  std::string types;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "Input") continue;
    types += (types.empty() ? "" : " ") + layer.type();
  }
  return types;
}

/// The outputs of the net for these inputs, in f64.
inline std::map<std::string, std::vector<double>> run_net(const NetParameter& param,
                                                          const Arrays& inputs) {
  Context context({.threads = 1});
  Net net(param, context, {.phase = Phase::test, .dtype = DType::f64});
  for (const auto& [name, array] : inputs) {
    net.reshape_input(name, array.shape());
    Tensor& tensor = net.input(name);
    tensor.reshape(array.shape());
    const std::vector<double> values = array.doubles();
    std::copy(values.begin(), values.end(), tensor.overwrite<double>());
  }
  net.forward();
  std::map<std::string, std::vector<double>> outputs;
  for (const std::string& name : net.outputs()) {
    const Tensor tensor = net.output(name);
    const auto values = tensor.values<double>();
    outputs[name] = {values.begin(), values.end()};
  }
  return outputs;
}

/// The outputs of the model, operator by operator, as they are in the file.
inline std::map<std::string, std::vector<double>> run_operators(const ModelProto& model,
                                                                const Arrays& inputs) {
  InputShapes shapes;
  for (const auto& [name, array] : inputs) shapes[name] = array.shape();
  const std::unique_ptr<Graph> graph = load_graph(model, shapes);
  for (Value* input : graph->inputs) input->known.constant = inputs.find(input->name)->second;
  for (const Node* node : graph->nodes) {
    const Operator* const entry =
        OperatorTable::instance().find(node->message.domain(), node->op());
    Call call = node->call();
    evaluate(*entry, call);
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      if (node->outputs[i] != nullptr) node->outputs[i]->known = call.output(i);
    }
  }
  std::map<std::string, std::vector<double>> outputs;
  for (const Value* output : graph->outputs) outputs[output->name] = output->values().doubles();
  return outputs;
}

/// Arrays for all inputs of the model, of floats.
inline Arrays some_inputs(const ModelProto& model) {
  Arrays inputs;
  const std::unique_ptr<Graph> graph = load_graph(model, {});
  for (const Value* input : graph->inputs)
    inputs.insert_or_assign(input->name, some_array(input->shape(), 7));
  return inputs;
}

inline void expect_near(const std::vector<double>& found, const std::vector<double>& wanted,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  double scale = 0;
  for (const double value : wanted) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(found[i], wanted[i], tolerance * std::max(scale, 1.0)) << what << " at " << i;
}

/// Imports the model, and compares what the net computes with what its operators compute. Returns
/// the net.
inline NetParameter expect_same(const TestModel& model, const Arrays& inputs,
                                double tolerance = 1e-5) {
  InputShapes shapes;
  for (const auto& [name, array] : inputs) shapes[name] = array.shape();
  const ImportedNet imported = import_model(model.message, {.shapes = shapes});
  const auto found = run_net(imported.net, inputs);
  const auto wanted = run_operators(model.message, inputs);
  EXPECT_EQ(found.size(), wanted.size()) << imported.net.DebugString();
  for (const auto& [name, values] : wanted) {
    const auto output = found.find(name);
    if (output == found.end()) {
      ADD_FAILURE() << "the net has no output " << name << "\n" << imported.net.DebugString();
      continue;
    }
    expect_near(output->second, values, tolerance, name);
  }
  return imported.net;
}

inline NetParameter expect_same(const TestModel& model, double tolerance = 1e-5) {
  return expect_same(model, some_inputs(model.message), tolerance);
}

/// Imports the model, whose batch is open, for the batch of 1 that importing takes, and compares
/// what the net computes of these inputs, of another batch, with what the model's operators
/// compute.
inline NetParameter expect_same_of_any_batch(const TestModel& model, const Arrays& inputs) {
  const ImportedNet imported = import_model(model.message, {});
  const auto found = run_net(imported.net, inputs);
  for (const auto& [name, values] : run_operators(model.message, inputs)) {
    const auto output = found.find(name);
    if (output == found.end()) {
      ADD_FAILURE() << "the net has no output " << name << "\n" << imported.net.DebugString();
      continue;
    }
    expect_near(output->second, values, 1e-5, name);
  }
  return imported.net;
}

/// The message of the Error that importing ends in; "" if it does not.
inline std::string import_error(const ModelProto& model, const ImportOptions& options = {}) {
  try {
    import_model(model, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace crema::onnx::test
