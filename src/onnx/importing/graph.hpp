// Graph: a model as importing works on it: nodes in an order in which they can run, values with
// types and shapes, and constants.
//
//   load_graph      checks the model, inlines functions and the branches of If that are chosen
//   infer_and_fold  gives each value its shape; what follows from constants becomes a constant
//   simplify        rewrites nodes into what layers compute (patterns/)
//   write_layers    gives the net (layer_writer.hpp, importers/)
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

struct Node;

/// What a node makes, an input of the model, or a constant.
struct Value {
  std::string name;
  /// `known.constant` has the values of initialisers and of what was folded.
  Operand known;
  Node* producer = nullptr;  // null: an input or a constant
  size_t output = 0;         // of the producer
  bool is_input = false;
  bool is_output = false;
  /// The axes of an input whose size the model leaves open, such as the batch.
  std::vector<bool> open_axes = {};

  bool is_constant() const { return known.constant.has_value(); }
  const Shape& shape() const { return known.shape; }
  ElementType type() const { return known.type; }
};

struct Node {
  NodeProto message;            // operator, name and attributes; inputs and outputs are those below
  int64_t opset = 0;            // the version of its domain
  std::vector<Value*> inputs;   // null: not given
  std::vector<Value*> outputs;  // null: not wanted

  const std::string& op() const { return message.op_type(); }
  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* output(size_t i = 0) const { return i < outputs.size() ? outputs[i] : nullptr; }
  /// What infer, evaluate and attributes are asked with. Valid as long as the node.
  Call call() const;
};

class Graph {
 public:
  std::string name;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  /// In an order in which each follows what it reads.
  std::vector<Node*> nodes;
  std::vector<std::string> notes;  // for the user

  /// A new value; a name that is taken gets a number.
  Value& add_value(std::string_view name);
  Value& add_constant(std::string_view name, Array values);
  /// A new node of ONNX's newest opset that Crema knows, in front of node `before` or, if that is
  /// null, at the end. Types and shapes of outputs follow at once (infer), so that patterns can
  /// look at them.
  Node& add_node(Node* before, std::string_view op, std::vector<Value*> inputs,
                 std::vector<Value*> outputs);
  /// The nodes that read the value, each once.
  const std::vector<Node*>& readers(const Value& value) const;
  /// The only node that reads the value, if the value is no output of the model; else null.
  Node* only_reader(const Value& value) const;
  /// All readers of `old` read `by`; an output of the model keeps its name, which `by` takes.
  void replace(Value& old, Value& by);
  void set_input(Node& node, size_t i, Value* value);
  /// Removes nodes none of whose outputs is read or an output of the model, again and again.
  void remove_dead();
  Value* find(std::string_view value_name) const;

 private:
  std::deque<Value> values_;
  std::deque<Node> node_store_;
  std::map<std::string, Value*, std::less<>> by_name_;
  std::map<const Value*, std::vector<Node*>> readers_;
};

/// Shapes of inputs by their names, in place of those in the model.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// Error for a model that is none: cycles, values that nobody makes or two nodes make, opsets or
/// operators that are not known (all of them in one message, with nodes' names), loops. Sizes of
/// inputs that the model leaves open are those of `shapes`, else 1, with a note.
std::unique_ptr<Graph> load_graph(const ModelProto& model, const InputShapes& shapes);
void infer_and_fold(Graph& graph);
void simplify(Graph& graph);

}  // namespace crema::onnx
