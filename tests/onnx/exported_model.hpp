// Nets from prototxt texts, written as models of ONNX and read again as messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crema/net.hpp"
#include "crema/onnx.hpp"
#include "onnx/model_file.hpp"
#include "onnx/operators/array.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {

/// "x", an Input of the shape, such as "dim: 1 dim: 3".
inline std::string input_layer(const std::string& shape, const std::string& name = "x") {
  return "layer { name: '" + name + "' type: 'Input' top: '" + name + "' input_param { shape { " +
         shape + " } } } ";
}

class ExportedModel {
 public:
  /// Exports the net of the text, with parameters from their fillers or as `change` sets them.
  explicit ExportedModel(const std::string& net_text, const OnnxOptions& options = {},
                         const std::function<void(Net&)>& change = {}) {
    Context context;
    Net net(net_param(net_text), context, {.phase = Phase::test});
    if (change) change(net);
    const TempFolder folder;
    report = save_onnx(net, folder.path("net.onnx"), options);
    model = onnx::read_model(folder.path("net.onnx"));
  }

  const onnx::GraphProto& graph() const { return model.graph(); }

  /// The operators, in order.
  std::vector<std::string> operators() const {
    std::vector<std::string> result;
    for (const onnx::NodeProto& node : graph().node()) result.push_back(node.op_type());
    return result;
  }
  /// The first node of the operator. Fails the test by an Error if there is none.
  const onnx::NodeProto& node(std::string_view op) const {
    for (const onnx::NodeProto& node : graph().node()) {
      if (node.op_type() == op) return node;
    }
    throw Error("the model has no node of ", op);
  }
  onnx::Array constant(const std::string& name) const {
    for (const onnx::TensorProto& tensor : graph().initializer()) {
      if (tensor.name() == name) return onnx::array_of(tensor);
    }
    throw Error("the model has no constant '", name, "'");
  }
  std::vector<int64_t> ints(std::string_view op, std::string_view attribute) const {
    for (const onnx::AttributeProto& one : node(op).attribute()) {
      if (one.name() == attribute) return {one.ints().begin(), one.ints().end()};
    }
    return {};
  }
  std::string metadata(std::string_view key) const {
    for (const auto& entry : model.metadata_props()) {
      if (entry.key() == key) return entry.value();
    }
    return "none";
  }

  onnx::ModelProto model;
  OnnxReport report;
};

/// Fails unless all names that nodes read are given before, and each is given once.
inline void expect_single_assignment(const onnx::GraphProto& graph) {
  std::set<std::string> known, nodes;
  for (const auto& input : graph.input()) EXPECT_TRUE(known.insert(input.name()).second);
  for (const auto& constant : graph.initializer())
    EXPECT_TRUE(known.insert(constant.name()).second) << constant.name();
  for (const auto& node : graph.node()) {
    EXPECT_TRUE(nodes.insert(node.name()).second) << "two nodes are called " << node.name();
    for (const std::string& input : node.input()) {
      EXPECT_TRUE(input.empty() || known.contains(input))
          << node.name() << " reads '" << input << "', which nothing gives";
    }
    for (const std::string& output : node.output())
      EXPECT_TRUE(known.insert(output).second) << output << " is given twice";
  }
  for (const auto& output : graph.output()) EXPECT_TRUE(known.contains(output.name()));
}

}  // namespace crema::test
