// LayerWriter: makes the layers of a net of the nodes of a Graph. An importer is a function for one
// operator; it adds one layer, or the few that compute the operator:
//
//   void import_relu(const Node& node, LayerWriter& writer) {
//     writer.add(node, "ReLU", {node.input(0)}, {node.output()});
//   }
//
// A node without an importer, or whose importer gives up, becomes a layer OnnxOperator, if the
// operator can be evaluated.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/importing/graph.hpp"
#include "proto/net.pb.h"

namespace crema::onnx {

class LayerWriter {
 public:
  explicit LayerWriter(const Graph& graph);

  /// Appends a layer that computes the node, or the last step of it: its name follows from the
  /// node's (or, with weights, from theirs). Constants among the bottoms become layers of type
  /// Parameter in front of it, which do not learn. The reference is valid until the next add().
  LayerParameter& add(const Node& node, std::string_view type, const std::vector<Value*>& bottoms,
                      const std::vector<Value*>& tops);
  /// The same for bottoms and tops by blob names, as of steps inside of one node.
  LayerParameter& add_named(const Node& node, std::string_view type,
                            const std::vector<std::string>& bottoms,
                            const std::vector<std::string>& tops);
  /// A name for a blob between two layers of one node; `what` says which: "padded".
  std::string inner_blob(const Node& node, std::string_view what);
  /// The blob of a value. A constant gets its layer of type Parameter.
  std::string blob(const Value& value);
  /// Appends the values as the next blob of the layer, as f32 (or f64 if they are DOUBLE), in
  /// `shape`.
  void add_weights(LayerParameter& layer, const Array& values, const Shape& shape);
  void add_weights(LayerParameter& layer, const Array& values) {
    add_weights(layer, values, values.shape());
  }
  /// Gives the layer the learning rate 0 for its parameters.
  void freeze(LayerParameter& layer, int parameters);
  void note(std::string text);

  /// Input layers, the layers of all nodes, and what the user is told. Error with all nodes that no
  /// layer computes, each with its name and the reason.
  static NetParameter write(const Graph& graph, std::vector<std::string>& notes);

 private:
  std::string layer_name(const Node& node);

  const Graph& graph_;
  NetParameter net_;
  std::vector<std::string> notes_;
  std::map<const Value*, std::string> blobs_;
  std::map<std::string, int, std::less<>> taken_;
};

/// Thrown by an importer for a form of the operator that its layers do not compute.
struct NotAsLayers {
  std::string why;
};

using Importer = void (*)(const Node& node, LayerWriter& writer);

class ImporterTable {
 public:
  static const ImporterTable& instance();
  void add(std::string_view op, Importer importer);
  /// For operators of another domain than ONNX's: "crema", "com.microsoft".
  void add(std::string_view domain, std::string_view op, Importer importer);
  Importer find(std::string_view domain, std::string_view op) const;

 private:
  ImporterTable();
  std::map<std::string, Importer, std::less<>> importers_;
};

}  // namespace crema::onnx
