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

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/importing/graph.hpp"
#include "proto/net.pb.h"

namespace crema::onnx {

/// A bottom or a top of a layer: a value of the graph, or a blob between two layers of one node.
struct LayerEnd {
  LayerEnd(const Value* of) : value(of) {}
  LayerEnd(const Value& of) : value(&of) {}
  LayerEnd(std::string name) : blob(std::move(name)) {}
  /// For a top: the value is this blob from then on, as of a layer in place.
  LayerEnd(const Value& of, std::string name) : value(&of), blob(std::move(name)) {}

  const Value* value = nullptr;
  std::string blob = {};
};

class LayerWriter {
 public:
  explicit LayerWriter(const Graph& graph);

  const Graph& graph() const { return graph_; }

  /// Appends a layer that computes the node, or a step of it. Its name follows from the node's (or,
  /// with weights, from theirs); `step`, if given, is appended: "conv1_pad". Constants among the
  /// bottoms become layers of type Parameter in front of it. A top that is null, or that nobody
  /// wants, gets a blob that a layer Silence reads. ReLU and Dropout run in place where nothing
  /// else reads their bottom. The reference is valid as long as the writer.
  LayerParameter& add(const Node& node, std::string_view type, const std::vector<LayerEnd>& bottoms,
                      const std::vector<LayerEnd>& tops, std::string_view step = {});
  /// A name for a blob between two layers of one node; `what` says which: "pad".
  std::string inner_blob(const Node& node, std::string_view what);
  /// The blob of a value. A constant gets its layer of type Parameter, which learns if the constant
  /// is a weight of the model.
  std::string blob(const Value& value);
  /// Value `to` has the same numbers as `from`: it is the same blob.
  void alias(const Value& from, const Value& to);
  /// Whether a layer of the node may write over the blob of the value: nothing else reads it.
  bool can_overwrite(const Node& node, const Value& value) const;
  /// Appends the values as the next blob of the layer, as f32 (or f64 if they are DOUBLE), in
  /// `shape`.
  static void add_weights(LayerParameter& layer, const Array& values, const Shape& shape);
  static void add_weights(LayerParameter& layer, const Array& values) {
    add_weights(layer, values, values.shape());
  }
  /// The same for a constant. Layers whose blobs are of one initialiser of the model share them, by
  /// `param { name: ... }`.
  void add_weights(LayerParameter& layer, const Value& value, const Shape& shape);
  void add_weights(LayerParameter& layer, const Value& value) {
    add_weights(layer, value, value.shape());
  }
  /// Gives the layer the learning rate 0 for its parameters.
  static void freeze(LayerParameter& layer, int parameters);
  void note(std::string text);

  /// Input layers, the layers of all nodes, and what the user is told. Error with all nodes that no
  /// layer computes, each with its name and the reason.
  static NetParameter write(const Graph& graph, std::vector<std::string>& notes);

 private:
  struct Mark;
  struct Weights;

  Mark mark() const;
  void go_back(const Mark& mark);
  const std::string& name_of(const Node& node);
  std::string layer_name(const Node& node, std::string_view step);
  std::string unused(std::string_view wanted, bool is_blob);
  std::string top_of(const LayerEnd& top, const std::string& layer, size_t index, bool is_only);
  void set_blob(const Value& value, const std::string& name);
  void write_inputs();
  void write_node(const Node& node, std::vector<std::string>& refused);
  void write_operator(const Node& node);
  void count_weights(int first_layer);
  void write_outputs();
  void silence();
  void share_weights();

  const Graph& graph_;
  NetParameter net_;
  std::vector<std::string> notes_;
  std::map<const Value*, std::string> blobs_;
  std::set<std::string, std::less<>> shared_;  // blobs of several values
  std::set<std::string, std::less<>> taken_blobs_, taken_layers_;
  std::map<std::string, int, std::less<>> numbers_;
  std::map<const Node*, std::string> names_;
  std::set<std::string, std::less<>> named_;  // what weights gave a name to
  double written_bytes_ = 0;                  // of weights
  std::vector<Weights> weights_;
  std::set<std::string, std::less<>> outputs_;  // tops that are outputs of the model
  // What a node that is given up takes back.
  std::vector<const Value*> blob_journal_;
  std::vector<std::pair<bool, std::string>> name_journal_;
};

/// Thrown by an importer for a form of the operator that its layers do not compute.
struct NotAsLayers {
  std::string why;
};

using Importer = void (*)(const Node& node, LayerWriter& writer);

class ImporterTable {
 public:
  static const ImporterTable& instance();
  void add(std::string_view op, Importer importer) { add({}, op, importer); }
  /// For operators of another domain than ONNX's: "com.microsoft". Those of "crema" have one
  /// importer, which is called "".
  void add(std::string_view domain, std::string_view op, Importer importer);
  /// Null if there is none.
  Importer find(std::string_view domain, std::string_view op) const;

 private:
  ImporterTable();
  std::map<std::string, Importer, std::less<>> importers_;
};

}  // namespace crema::onnx
