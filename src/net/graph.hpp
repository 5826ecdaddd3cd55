// Graph: the layers of a net and the values between them, as the prototxt and the passes up to
// fusion make them. It does not depend on shapes, and nothing changes it after fusion: all that
// runs the net reads the same graph.
//
// Values are in single-assignment form: a layer that runs in place in the prototxt makes a new
// value (version) of the same name. Only memory.cpp decides whether two values share memory. It
// knows all readers of a value, so running in place never corrupts a gradient.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "net/ids.hpp"

namespace crema {

/// One bottom of a node.
struct Use {
  NodeId node;
  size_t bottom = 0;
  bool operator==(const Use&) const = default;
};

/// What a value is, in a graph and in a program.
struct ValueInfo {
  std::string name;
  int version = 0;
  NodeId producer;  // the layer with this top
  float loss_weight = 0;
  bool is_input = false;    // the caller fills it
  bool is_output = false;   // no layer of the prototxt reads it
  bool keep = false;        // NetOptions::keep names it
  bool fused_away = false;  // never computed: its producer and its reader were fused
};

struct Value : ValueInfo {
  std::vector<Use> uses;  // by layers
};

/// A layer of the prototxt.
struct Node {
  Position position;
  std::string name;  // as in the prototxt; Layer::name() has "#2" appended if the name occurs again
  std::unique_ptr<Layer> layer;
  std::vector<ValueId> bottoms, tops;
  std::vector<bool> propagate;  // one entry a bottom: backward writes its diff
  bool needs_backward = false;
  Tail tail;                    // operations of layers that were fused into this one
  NodeId fused_into;            // the node that computes this layer too
  bool own_phase = false;       // the prototxt gives the layer a phase
  bool recompute = false;       // the prototxt asks that its tops, those of its tail, are dropped
  bool follows_values = false;  // the shapes of its bottoms are known during forward only
  bool follows_guess = false;  // and before it, there are guesses (has_unbounded_tops()), no bounds

  bool scheduled() const { return !fused_into.valid(); }
};

struct Graph {
  std::string name;
  IdVector<NodeId, Node> nodes;  // in the order of the prototxt
  IdVector<ValueId, Value> values;
  std::map<std::string, std::vector<ValueId>> versions;  // by name
  std::vector<ValueId> inputs;                           // values that the caller fills
  std::vector<ValueId> outer;  // inputs and tops of TopShapes::per_batch; all shapes follow theirs
  std::vector<std::string> input_names, output_names;

  const Node& operator[](NodeId id) const { return nodes[id]; }
  Node& operator[](NodeId id) { return nodes[id]; }
  const Value& operator[](ValueId id) const { return values[id]; }
  Value& operator[](ValueId id) { return values[id]; }
  IdRange<NodeId> node_ids() const { return IdRange<NodeId>(nodes.size()); }
  IdRange<ValueId> value_ids() const { return IdRange<ValueId>(values.size()); }
  /// The node that runs the layer: its own, or that of the layer that it was fused into.
  NodeId runs(NodeId id) const {
    while (!nodes[id].scheduled()) id = nodes[id].fused_into;
    return id;
  }
  /// Whether the shape of the value is known during forward only.
  bool has_late_shape(ValueId id) const;
  /// Whether a layer with unbounded tops makes the value, or one before that which does.
  bool has_guessed_shape(ValueId id) const;
};

/// Runs `body`. Adds the position and the layer of the node to an Error.
template <class Body>
decltype(auto) in_node(const Node& node, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    if (node.layer) error.in_layer(node.layer->name(), node.layer->type());
    error.at(node.position);
    throw;
  }
}

/// "layer 'conf_rows' (Reshape)".
inline std::string named(const Node& node) {
  return text("layer '", node.layer->name(), "' (", node.layer->type(), ")");
}
/// "layer 'conf_rows' (line 3)"; without the line where it is not known.
inline std::string named(const std::string& layer, const Position& position) {
  return text("layer '", layer, "'", position.line > 0 ? text(" (line ", position.line, ")") : "");
}

}  // namespace crema
