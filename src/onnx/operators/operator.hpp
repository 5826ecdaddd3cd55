// Operators of ONNX: what each gives for which inputs. An operator says the types and shapes of its
// outputs (infer), and, if it is light, their values (evaluate): constants are folded with it, and
// the layer OnnxOperator runs it. Heavy operators, such as Conv, are layers alone.
//
// A file of this folder defines the operators of one kind and ends with a function that adds them
// to the table:
//
//   void infer_transpose(Call& call) { ... call.give(0, call.input(0).type, shape); }
//   void evaluate_transpose(Call& call) { ... call.give(0, array); }
//   void add_moving_operators(OperatorTable& table) {
//     table.add({.name = "Transpose", .infer = infer_transpose, .evaluate = evaluate_transpose});
//   }
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/operators/array.hpp"

namespace crema::onnx {

/// What is known of an input or output of a node.
struct Operand {
  ElementType type = TensorProto::UNDEFINED;
  Shape shape;
  /// The values, where they are known.
  std::optional<Array> constant;
  /// The shape is an upper bound, and follows from values that are not known: of NonZero and
  /// others.
  bool is_bound = false;
};

/// One use of an operator: a node, its inputs and its outputs.
class Call {
 public:
  /// `opset`: the version of the node's domain. An input that is not given is null.
  Call(const NodeProto& node, int64_t opset, std::vector<const Operand*> inputs);

  const NodeProto& node() const { return node_; }
  const std::string& op() const { return node_.op_type(); }
  int64_t opset() const { return opset_; }

  size_t inputs() const { return inputs_.size(); }
  /// Whether input i is given.
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  /// Error if it is not given.
  const Operand& input(size_t i) const;
  const Shape& shape(size_t i) const { return input(i).shape; }
  ElementType type(size_t i) const { return input(i).type; }
  /// The values of input i. Error if they are not known, with `what` for the input: "axes".
  const Array& constant(size_t i, std::string_view what) const;
  bool is_constant(size_t i) const { return has(i) && input(i).constant.has_value(); }

  // Attributes. Error for one of another type.
  bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }
  int64_t get_int(std::string_view name, int64_t otherwise) const;
  double get_float(std::string_view name, double otherwise) const;
  std::string get_string(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> get_ints(std::string_view name,
                                const std::vector<int64_t>& otherwise = {}) const;
  std::vector<double> get_floats(std::string_view name) const;
  std::vector<std::string> get_strings(std::string_view name) const;
  std::optional<Array> get_tensor(std::string_view name) const;
  /// Error if there is no such attribute.
  int64_t need_int(std::string_view name) const;
  /// Null if there is none.
  const AttributeProto* attribute(std::string_view name) const;
  /// Integers that are an attribute in older opsets and input i from opset `since` on; none if
  /// neither is given.
  std::optional<std::vector<int64_t>> ints_of(std::string_view name, size_t i, int64_t since) const;
  /// `axis` of a tensor of `rank` axes, counted from the front. Error if there is none.
  int canonical(int64_t axis, int rank) const;
  /// Each of `axes` counted from the front. Error for one that is not there or twice.
  std::vector<int> canonical(const std::vector<int64_t>& axes, int rank) const;

  /// Whether the node names output i.
  bool wants(size_t i) const {
    return i < static_cast<size_t>(node_.output_size()) &&
           !node_.output(static_cast<int>(i)).empty();
  }
  size_t outputs() const { return outputs_.size(); }
  /// For infer: the type and shape of output i. Outputs that the node does not want are dropped.
  void give(size_t i, ElementType type, const Shape& shape);
  /// The same; `bound`: the greatest shape that the output can have.
  void give_bound(size_t i, ElementType type, const Shape& bound);
  /// For evaluate, and for infer where the values follow from shapes alone.
  void give(size_t i, Array values);
  const Operand& output(size_t i) const { return outputs_[i]; }

  /// An Error of this node: "Reshape: " and the arguments.
  template <class... Args>
  [[noreturn]] void fail(const Args&... args) const {
    throw Error(op(), ": ", args...);
  }

 private:
  const NodeProto& node_;
  int64_t opset_;
  std::vector<const Operand*> inputs_;
  std::vector<Operand> outputs_;
};

struct Operator {
  std::string name;
  std::string domain = {};  // "": of ONNX
  size_t min_inputs = 1;
  size_t max_inputs = 1;  // also a bound on min for operators of any number: kAny
  size_t max_outputs = 1;
  /// Types and shapes of the outputs, from types, shapes and what is constant of the inputs.
  void (*infer)(Call&) = nullptr;
  /// The values of the outputs, from those of all inputs. Null: a layer computes it.
  void (*evaluate)(Call&) = nullptr;
};
inline constexpr size_t kAny = 1U << 20U;

class OperatorTable {
 public:
  static const OperatorTable& instance();
  /// Error if there is one of that name.
  void add(Operator entry);
  /// Null if there is none.
  const Operator* find(std::string_view domain, std::string_view name) const;
  /// "ai.onnx" is the domain "".
  std::vector<std::string> names() const;

 private:
  OperatorTable();
  std::map<std::string, Operator, std::less<>> operators_;  // by "domain:name"
};

/// Calls infer, after checking the numbers of inputs and outputs. The result has what is known of
/// the outputs that the node names, in its order. Errors begin with the operator.
void infer(const Operator& entry, Call& call);
/// Calls infer and evaluate: every output that the node names has values then.
void evaluate(const Operator& entry, Call& call);

}  // namespace crema::onnx
