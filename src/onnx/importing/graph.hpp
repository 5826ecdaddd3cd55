// Graph: a model as importing works on it: nodes in an order in which they can run, values with
// types and shapes, and constants.
//
//   load_graph      checks the model, inlines functions and the branches of If that are chosen
//   infer_and_fold  gives each value its shape; what follows from constants becomes a constant
//   simplify        rewrites nodes into what layers compute (patterns/)
//   write_layers    gives the net (layer_writer.hpp, importers/)
//
// Beside the operators of ONNX, nodes of the domain "crema" are layers: the operator is the type of
// the layer, the attributes are fields of its settings, and the inputs behind its bottoms are its
// weights (layer_node.hpp). Patterns make such nodes, and Crema's exporter does.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

struct Node;

inline constexpr std::string_view kLayerDomain = "crema";
/// The newest version of ONNX's operators that is known.
inline constexpr int64_t kNewestOpset = 28;
/// The most bytes of all constants that are folded, beside eight times those of the model.
inline constexpr int64_t kMaxFoldedBytes = int64_t{256} << 20;

/// What a node makes, an input of the model, or a constant.
struct Value {
  std::string name;
  /// `known.constant` has the values of initialisers and of what was folded.
  Operand known;
  Node* producer = nullptr;  // null: an input or a constant
  size_t output = 0;         // of the producer
  bool is_input = false;
  bool is_output = false;
  /// Of an input: for each axis, whether the model leaves its size open, as that of the batch.
  std::vector<bool> open_axes = {};
  /// The initialiser whose numbers these are, perhaps in another order or type. "": of a constant
  /// that was computed, and of anything else.
  std::string weight = {};

  bool is_constant() const { return known.constant.has_value(); }
  const Array& values() const { return *known.constant; }
  const Shape& shape() const { return known.shape; }
  ElementType type() const { return known.type; }
};

struct Node {
  NodeProto message;            // operator, name and attributes; inputs and outputs are those below
  int64_t opset = 0;            // the version of its domain
  std::vector<Value*> inputs;   // null: not given
  std::vector<Value*> outputs;  // null: not wanted
  /// Of a layer: how many inputs are bottoms. Without it, constants at the end are weights.
  std::optional<size_t> bottoms = {};
  std::list<Node*>::iterator place = {};  // among the nodes of its graph

  const std::string& op() const { return message.op_type(); }
  /// An operator of ONNX itself.
  bool is(std::string_view name) const { return message.domain().empty() && op() == name; }
  bool is_layer(std::string_view type) const {
    return message.domain() == kLayerDomain && op() == type;
  }
  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* output(size_t i = 0) const { return i < outputs.size() ? outputs[i] : nullptr; }
  /// What infer, evaluate and attributes are asked with. Valid as long as the node.
  Call call() const;
};

using NodeAttributes = std::vector<AttributeProto>;

class Graph {
 public:
  std::string name;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  /// In an order in which each follows what it reads.
  std::list<Node*> nodes;
  std::vector<std::string> notes;  // for the user
  /// Shapes that the model states for values beside its inputs, by name.
  std::map<std::string, Operand, std::less<>> stated;

  /// A new value; a name that is taken gets a number.
  Value& add_value(std::string_view name);
  /// Error if the constants take more room than a model of this size may ask for.
  Value& add_constant(std::string_view name, Array values);

  // A model of a few bytes must not fill the memory or run for hours: what is made of it is
  // counted.
  /// The bytes of a constant that stands in the model.
  void count_loaded(size_t bytes) { loaded_bytes_ += static_cast<double>(bytes); }
  double loaded_bytes() const { return loaded_bytes_; }
  /// Counts what folding makes, in bytes, and the steps that it takes. False, and nothing is
  /// counted, where that is too much.
  bool take_room(double bytes);
  bool take_steps(double steps);
  /// Error if so many bytes more, which folding does not make, are too many.
  void need_room(double bytes);
  /// A node of the model behind all others.
  Node& append(NodeProto message, int64_t opset, std::vector<Value*> inputs,
               std::vector<Value*> outputs);
  /// A new node of ONNX's newest opset that Crema knows, in front of node `before` or, if that is
  /// null, at the end. Types and shapes of outputs that are not known yet follow at once (infer),
  /// so that patterns can look at them.
  Node& add_node(Node* before, std::string_view op, std::vector<Value*> inputs,
                 std::vector<Value*> outputs, NodeAttributes attributes = {});
  /// The same with one output, a new value, which is returned.
  Value& add_step(Node* before, std::string_view op, std::vector<Value*> inputs,
                  NodeAttributes attributes = {});
  /// A node of the domain "crema". Types and shapes of the outputs are the caller's.
  Node& add_layer(Node* before, std::string_view type, std::vector<Value*> inputs,
                  std::vector<Value*> outputs, NodeAttributes attributes = {});
  /// The same with one output, a new value of that type and shape, which is returned.
  Value& add_layer_step(Node* before, std::string_view type, std::vector<Value*> inputs,
                        ElementType element, const Shape& shape, NodeAttributes attributes = {});
  /// A new node makes output 0 of `node` from now on; it stands in its place and has its name. The
  /// old node makes it no more, and is dead if it has no other output.
  Node& substitute(Node& node, std::string_view op, std::vector<Value*> inputs,
                   NodeAttributes attributes = {});
  Node& substitute_layer(Node& node, std::string_view type, std::vector<Value*> inputs,
                         NodeAttributes attributes = {});

  /// The nodes that read the value, each once, in no order.
  const std::vector<Node*>& readers(const Value& value) const;
  /// The only node that reads the value, if the value is no output of the model; else null.
  Node* only_reader(const Value& value) const;
  /// Whether someone reads the value, or it is an output of the model.
  bool is_wanted(const Value& value) const { return value.is_output || !readers(value).empty(); }
  /// All readers of `old` read `by`; an output of the model keeps its name, which `by` takes. Where
  /// `by` cannot take it, as an input, a constant or an output itself, `old` stays what it is for
  /// the output. Nothing reads `old` in front of what makes `by`.
  void replace(Value& old, Value& by);
  void set_input(Node& node, size_t i, Value* value);
  /// Removes nodes none of whose outputs is read or an output of the model, again and again.
  void remove_dead();
  /// Whether the model takes any batch: the size of axis 0 of an input is open. What importing sees
  /// is one of the sizes that it may have.
  bool has_open_batch() const { return open_batch().has_value(); }
  /// That size.
  std::optional<int64_t> open_batch() const;
  Value* find(std::string_view value_name) const;

 private:
  /// Nodes that read a value. Of many, the place of each is known.
  struct Readers {
    std::vector<Node*> nodes;
    std::unordered_map<const Node*, size_t> places;
  };

  Node& insert(Node* before, Node node);
  void add_reader(const Value& value, Node& node);
  void forget_reader(const Value& value, const Node& node);
  Node& substitute_in(Node& node, std::string_view domain, std::string_view op,
                      std::vector<Value*> inputs, NodeAttributes attributes);
  std::string free_name(std::string_view wanted);

  std::deque<Value> values_;
  std::deque<Node> node_store_;
  std::map<std::string, Value*, std::less<>> by_name_;
  std::map<std::string, int, std::less<>> numbers_;  // the last one that a name got
  std::map<const Value*, Readers> readers_;
  double loaded_bytes_ = 0, steps_ = 0;
  double made_bytes_ = 0;  // of all constants, and of copies of functions
};

/// Shapes of inputs by their names, in place of those in the model.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// Error for a model that is none: cycles, values that nobody makes or two nodes make, opsets or
/// operators that are not known (all of them in one message, with nodes' names), loops. Sizes of
/// inputs that the model leaves open are those of `shapes`, else 1, with a note. Values have shapes
/// then, and constants are folded as by infer_and_fold(), because conditions may depend on them.
std::unique_ptr<Graph> load_graph(const ModelProto& model, const InputShapes& shapes);
/// Gives the outputs of one node types and shapes, and values where these follow. Errors name the
/// node.
void infer_node(Graph& graph, Node& node);
/// infer_node() for all nodes in their order. Nodes whose outputs are constants go.
void infer_and_fold(Graph& graph);
void simplify(Graph& graph);

/// "node '/layer1/Conv' (Conv)", or "node (Conv) that makes 'x'" where it has no name.
std::string described(const Node& node);
std::string described(const NodeProto& node);
/// What an Error of the operator says, to stand behind described(), which names the operator too:
/// without the "Conv: " in front.
std::string said_of_operator(const std::string& op, const Error& error);

}  // namespace crema::onnx
