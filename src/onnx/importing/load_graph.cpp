// From the messages of a model to a Graph. Models are hostile input: nesting and the number of
// nodes have bounds, and each name is looked up before it is used.
#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <set>

#include "onnx/importing/graph.hpp"
#include "onnx/importing/learning_operators.hpp"
#include "onnx/importing/model_order.hpp"

namespace crema::onnx {

namespace {

constexpr int kMaxNesting = 32;
constexpr int64_t kMaxNodes = 200'000;
constexpr int64_t kOldestOpset = 7;

using Opsets = std::map<std::string, int64_t, std::less<>>;
using Arguments = std::map<std::string, AttributeProto, std::less<>>;

std::string own_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

template <class Imports>
Opsets opsets_of(const Imports& imports) {
  Opsets result;
  for (const OperatorSetIdProto& import : imports)
    result[own_domain(import.domain())] = import.version();
  return result;
}

struct Scope {
  const Scope* outer = nullptr;
  const Opsets* opsets = nullptr;
  const Arguments* arguments = nullptr;  // of the function, null outside of functions
  std::string prefix = {};               // of the names of nodes and values
  std::map<std::string, Value*, std::less<>> values = {};
  std::map<std::string, const TensorProto*, std::less<>> tensors = {};
  std::map<std::string, const SparseTensorProto*, std::less<>> sparse_tensors = {};
};

// The dense array of a sparse initialiser.
Array dense_of(const SparseTensorProto& sparse, Graph& graph) {
  const std::string& name = sparse.values().name();
  const Shape shape(std::vector<int64_t>(sparse.dims().begin(), sparse.dims().end()));
  const Array values = array_of(sparse.values());
  const Array indices = array_of(sparse.indices());
  const int64_t stored = values.count();
  if (values.shape().rank() != 1 || !is_integer(indices.type()))
    throw Error("sparse initialiser '", name, "' needs a vector of values and integers as indices");
  const bool is_linear = indices.shape().rank() == 1;
  if (indices.shape() != (is_linear ? Shape{stored} : Shape{stored, shape.rank()}))
    throw Error("sparse initialiser '", name, "' has ", stored, " values of ", shape.str(),
                ", and indices of shape ", indices.shape().str());
  const auto size = static_cast<int64_t>(element_size(values.type()));
  if (shape.count() > kMaxFoldedBytes / size)
    throw Error("sparse initialiser '", name, "' of ", shape.str(), " takes more than ",
                kMaxFoldedBytes >> 20, " MiB when it is written out");
  graph.need_room(static_cast<double>(shape.count() * size));
  const std::vector<int64_t> strides = strides_of(shape);
  const std::vector<int64_t> places = indices.integers();
  std::vector<std::byte> bytes(static_cast<size_t>(shape.count() * size));
  const auto rank = static_cast<size_t>(shape.rank());
  for (size_t i = 0; i < static_cast<size_t>(stored); ++i) {
    int64_t place = 0;
    if (is_linear) {
      place = places[i];
    } else {
      for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t index = places[i * rank + axis];
        if (index < 0 || index >= shape[static_cast<int>(axis)]) place = -1;
        if (place >= 0) place += index * strides[axis];
      }
    }
    if (place < 0 || place >= shape.count())
      throw Error("sparse initialiser '", name, "': index ", i, " lies outside of ", shape.str());
    std::ranges::copy(
        values.bytes().subspan(i * static_cast<size_t>(size), static_cast<size_t>(size)),
        bytes.begin() + place * size);
  }
  return Array(values.type(), shape, std::move(bytes));
}

class Loader {
 public:
  Loader(const ModelProto& model, const InputShapes& shapes)
      : model_(model), shapes_(shapes), graph_(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> load() {
    const GraphProto& main = model_.graph();
    if (!model_.has_graph() || main.output_size() == 0)
      throw Error("the model has no graph with outputs; it is damaged, or no net");
    graph_->name = main.name();
    opsets_ = opsets_of(model_.opset_import());
    for (const FunctionProto& function : model_.functions())
      functions_[key_of(function.domain(), function.name(), function.overload())] = &function;
    check_operators();
    Scope scope;
    scope.opsets = &opsets_;
    add_initialisers(main, scope);
    add_inputs(scope);
    for (const ValueInfoProto& info : main.value_info()) add_stated(info);
    for (const ValueInfoProto& info : main.output()) add_stated(info);
    add_nodes(main.node(), scope, 0);
    add_outputs(scope);
    graph_->remove_dead();
    return std::move(graph_);
  }

 private:
  static std::string key_of(const std::string& domain, const std::string& name,
                            const std::string& overload) {
    return own_domain(domain) + ":" + name + ":" + overload;
  }
  const FunctionProto* function_of(const NodeProto& node) const {
    const auto found = functions_.find(key_of(node.domain(), node.op_type(), node.overload()));
    return found == functions_.end() ? nullptr : found->second;
  }

  // All operators that nothing computes, in one Error.
  void check_operators() {
    std::map<std::string, std::vector<std::string>> unknown;  // operator -> its nodes
    std::set<const FunctionProto*> seen;
    std::vector<const google::protobuf::RepeatedPtrField<NodeProto>*> open = {
        &model_.graph().node()};
    while (!open.empty()) {
      const auto& nodes = *open.back();
      open.pop_back();
      for (const NodeProto& node : nodes) {
        if (const FunctionProto* const function = function_of(node); function != nullptr) {
          if (seen.insert(function).second) open.push_back(&function->node());
          continue;
        }
        const std::string domain = own_domain(node.domain());
        if (domain == kLayerDomain || is_learning_operator(node)) continue;
        if (domain.empty() && node.op_type() == "If") continue;
        if (OperatorTable::instance().find(domain, node.op_type()) != nullptr) continue;
        unknown[domain.empty() ? node.op_type() : domain + "." + node.op_type()].push_back(
            described(node));
      }
    }
    if (unknown.empty()) return;
    std::string list;
    for (const auto& [op, nodes] : unknown) {
      if (!list.empty()) list += "; ";
      list += text(op, " (", nodes.size() == 1 ? "" : text(nodes.size(), " nodes, the first is "),
                   nodes.front(), ")");
    }
    throw Error("the model has operators that Crema does not know: ", list,
                ". Loops (Loop, Scan) and sequences are not supported; export the model without "
                "them, such as in parts, or from Keras with unroll=True");
  }

  void add_initialisers(const GraphProto& graph, Scope& scope) {
    for (const TensorProto& tensor : graph.initializer()) {
      if (!scope.tensors.try_emplace(tensor.name(), &tensor).second)
        throw Error("two initialisers are called '", tensor.name(), "'");
    }
    for (const SparseTensorProto& tensor : graph.sparse_initializer()) {
      const std::string& name = tensor.values().name();
      if (scope.tensors.contains(name) || !scope.sparse_tensors.try_emplace(name, &tensor).second)
        throw Error("two initialisers are called '", name, "'");
    }
  }

  void add_inputs(Scope& scope) {
    // Sizes of the same name are the same.
    std::map<std::string, int64_t, std::less<>> named;
    for (const ValueInfoProto& info : model_.graph().input()) {
      const auto given = shapes_.find(info.name());
      if (given == shapes_.end()) continue;
      const auto& dims = info.type().tensor_type().shape().dim();
      for (int axis = 0; axis < dims.size() && axis < given->second.rank(); ++axis) {
        if (!dims.Get(axis).dim_param().empty())
          named[dims.Get(axis).dim_param()] = given->second[axis];
      }
    }
    for (const ValueInfoProto& info : model_.graph().input()) {
      if (scope.tensors.contains(info.name()) || scope.sparse_tensors.contains(info.name()))
        continue;  // models of IR 3 list initialisers too
      if (scope.values.contains(info.name()))
        throw Error("two inputs of the model are called '", info.name(), "'");
      add_input(info, named, scope);
    }
    std::vector<std::string> known;
    for (const Value* input : graph_->inputs) known.push_back(input->name);
    for (const auto& [name, shape] : shapes_) {
      if (!scope.values.contains(name))
        throw Error("a shape is given for '", name, "', which is no input of the model",
                    did_you_mean(name, known, "inputs are"));
    }
  }

  void add_input(const ValueInfoProto& info,
                 const std::map<std::string, int64_t, std::less<>>& named, Scope& scope) {
    const std::string& name = info.name();
    if (name.empty()) throw Error("an input of the model has no name");
    if (!info.type().has_tensor_type())
      throw Error("input '", name,
                  "' is no tensor; sequences, maps and optional values are not "
                  "supported");
    const auto& tensor = info.type().tensor_type();
    if (!is_supported(static_cast<ElementType>(tensor.elem_type())))
      throw Error("input '", name, "' has values of ", type_name(tensor.elem_type()),
                  "; floats of 16 to 64 bits, integers of 8 to 64 bits and BOOL are supported");
    const auto given = shapes_.find(name);
    std::vector<int64_t> dims;
    std::vector<bool> open;
    std::string taken;
    if (given != shapes_.end()) {
      dims = given->second.dims();
    } else if (!tensor.has_shape()) {
      throw Error("the model does not say the shape of input '", name, "'; give one");
    }
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      const auto& dim = tensor.shape().dim(axis);
      const bool is_open = !dim.has_dim_value() || dim.dim_value() < 0;
      open.push_back(is_open);
      if (given != shapes_.end()) continue;
      if (!is_open) {
        dims.push_back(dim.dim_value());
        continue;
      }
      const auto known = named.find(dim.dim_param());
      dims.push_back(known == named.end() ? 1 : known->second);
      if (known == named.end())
        taken += text(taken.empty() ? "" : ", ", axis,
                      dim.dim_param().empty() ? "" : " ('" + dim.dim_param() + "')");
    }
    open.resize(dims.size(), true);
    if (!taken.empty())
      graph_->notes.push_back(text("the model leaves the size of axis ", taken, " of input '", name,
                                   "' open; it is 1 here"));
    Value& value = graph_->add_value(name);
    value.known.type = static_cast<ElementType>(tensor.elem_type());
    value.known.shape = Shape(std::move(dims));
    value.known.shape.count();
    value.is_input = true;
    value.open_axes = std::move(open);
    graph_->inputs.push_back(&value);
    scope.values[name] = &value;
  }

  // What the model says of a value, if it says all of it.
  void add_stated(const ValueInfoProto& info) {
    const auto& tensor = info.type().tensor_type();
    if (!tensor.has_shape() || !is_supported(static_cast<ElementType>(tensor.elem_type()))) return;
    std::vector<int64_t> dims;
    for (const auto& dim : tensor.shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() < 0) return;
      dims.push_back(dim.dim_value());
    }
    Operand& operand = graph_->stated[info.name()];
    operand.type = static_cast<ElementType>(tensor.elem_type());
    operand.shape = Shape(std::move(dims));
  }

  // Null if the scope and those around it have no such value.
  Value* find(const std::string& name, Scope& scope) {
    if (const auto found = scope.values.find(name); found != scope.values.end())
      return found->second;
    if (const auto found = scope.tensors.find(name); found != scope.tensors.end()) {
      Array array;
      try {
        array = array_of(*found->second);
      } catch (const Error& error) {
        throw Error("initialiser '", name, "': ", error.message());
      }
      graph_->count_loaded(array.bytes().size());
      return &add_initialiser(name, std::move(array), scope);
    }
    if (const auto found = scope.sparse_tensors.find(name); found != scope.sparse_tensors.end())
      return &add_initialiser(name, dense_of(*found->second, *graph_), scope);
    return scope.outer == nullptr ? nullptr : find(name, const_cast<Scope&>(*scope.outer));
  }

  Value& add_initialiser(const std::string& name, Array array, Scope& scope) {
    Value& value = graph_->add_constant(scope.prefix + name, std::move(array));
    if (is_float(value.type())) value.weight = value.name;
    scope.values[name] = &value;
    return value;
  }

  template <class Nodes>
  void add_nodes(const Nodes& nodes, Scope& scope, int depth) {
    if (depth > kMaxNesting)
      throw Error("functions or conditions of the model are nested more than ", kMaxNesting,
                  " deep");
    if (nodes.size() > kMaxNodes) throw Error("the model has more than ", kMaxNodes, " nodes");
    for (const NodeProto& node : nodes) {
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        if (scope.values.contains(output) || scope.tensors.contains(output) ||
            scope.sparse_tensors.contains(output))
          throw Error(described(node), " makes '", output, "', which the model has already");
        scope.values[output] = &graph_->add_value(scope.prefix + output);
      }
    }
    for (const int i : order_of(nodes)) add_node(nodes.Get(i), scope, depth);
  }

  void add_node(const NodeProto& message, Scope& scope, int depth) {
    if (++added_ > kMaxNodes)
      throw Error("the model has more than ", kMaxNodes,
                  " nodes, counted with those of the functions that it calls");
    NodeProto node = message;
    node.set_domain(own_domain(node.domain()));
    if (!node.name().empty()) node.set_name(scope.prefix + node.name());
    if (scope.arguments != nullptr) {
      resolve_arguments(*scope.arguments, node);
      graph_->need_room(static_cast<double>(node.ByteSizeLong()));
    }

    std::vector<Value*> inputs, outputs;
    for (const std::string& name : node.input()) {
      Value* const input = name.empty() ? nullptr : find(name, scope);
      if (!name.empty() && input == nullptr)
        throw Error(described(node), " reads '", name,
                    "', which no node makes and which is no input or initialiser of the model");
      inputs.push_back(input);
    }
    while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
    for (const std::string& name : node.output())
      outputs.push_back(name.empty() ? nullptr : scope.values[name]);

    if (const FunctionProto* const function = function_of(message); function != nullptr)
      return add_call(*function, node, inputs, outputs, scope, depth);
    if (node.domain().empty() && node.op_type() == "If")
      return add_condition(node, inputs, outputs, scope, depth);
    if (is_learning_operator(node)) return add_learning_operator(*graph_, node, inputs, outputs);
    Node& added = graph_->append(node, opset_of(node, scope), inputs, outputs);
    infer_node(*graph_, added);
  }

  static void resolve_arguments(const Arguments& arguments, NodeProto& node) {
    NodeProto resolved = node;
    resolved.clear_attribute();
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.ref_attr_name().empty()) {
        *resolved.add_attribute() = attribute;
        continue;
      }
      const auto found = arguments.find(attribute.ref_attr_name());
      if (found == arguments.end()) continue;  // not given: the default of the operator
      AttributeProto& given = *resolved.add_attribute();
      given = found->second;
      given.set_name(attribute.name());
    }
    node = std::move(resolved);
  }

  static int64_t opset_of(const NodeProto& node, const Scope& scope) {
    const auto found = scope.opsets->find(node.domain());
    const int64_t version = found == scope.opsets->end() ? 1 : found->second;
    if (!node.domain().empty()) return version;
    if (version < kOldestOpset)
      throw Error("the model's operators are of version ", version, "; versions ", kOldestOpset,
                  " to ", kNewestOpset, " are supported: convert it with onnx.version_converter");
    if (version > kNewestOpset)
      throw Error("the model's operators are of version ", version, "; versions ", kOldestOpset,
                  " to ", kNewestOpset,
                  " are supported: export the model with opset_version=", kNewestOpset);
    return version;
  }

  // Copies what a function or a branch gives to the outputs of the node that stands for it.
  void hand_over(Value* from, Value* to) {
    if (to == nullptr) return;
    NodeProto copy;
    copy.set_op_type("Identity");
    infer_node(*graph_, graph_->append(copy, kNewestOpset, {from}, {to}));
  }

  std::string prefix_of(const NodeProto& node) {
    return (node.name().empty() ? text(node.op_type(), "_", added_) : node.name()) + "/";
  }

  void add_call(const FunctionProto& function, const NodeProto& node,
                const std::vector<Value*>& inputs, const std::vector<Value*>& outputs,
                const Scope& outer, int depth) {
    const Opsets opsets =
        function.opset_import_size() > 0 ? opsets_of(function.opset_import()) : *outer.opsets;
    Arguments arguments;
    for (const AttributeProto& attribute : function.attribute_proto())
      arguments[attribute.name()] = attribute;
    for (const AttributeProto& attribute : node.attribute())
      arguments[attribute.name()] = attribute;
    Scope scope;
    scope.opsets = &opsets;
    scope.arguments = &arguments;
    scope.prefix = prefix_of(node);
    if (inputs.size() > static_cast<size_t>(function.input_size()))
      throw Error(described(node), " gives ", inputs.size(), " inputs to a function of ",
                  function.input_size());
    std::set<std::string> absent;
    for (int i = 0; i < function.input_size(); ++i) {
      const auto place = static_cast<size_t>(i);
      if (place < inputs.size() && inputs[place] != nullptr) {
        scope.values[function.input(i)] = inputs[place];
      } else {
        absent.insert(function.input(i));
      }
    }
    // A short model must not fill the memory by calls of a large function.
    graph_->need_room(static_cast<double>(function.ByteSizeLong()));
    google::protobuf::RepeatedPtrField<NodeProto> nodes = function.node();
    // An input that the call does not give is none for the nodes of the function either.
    for (NodeProto& each : nodes) {
      for (std::string& input : *each.mutable_input()) {
        if (absent.contains(input)) input.clear();
      }
    }
    add_nodes(nodes, scope, depth + 1);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i >= static_cast<size_t>(function.output_size()))
        throw Error(described(node), " wants output ", i, " of a function of ",
                    function.output_size());
      hand_over(found_output(function.output(static_cast<int>(i)), node, scope), outputs[i]);
    }
  }

  Value* found_output(const std::string& name, const NodeProto& node, Scope& scope) {
    Value* const value = find(name, scope);
    if (value == nullptr) throw Error(described(node), " gives '", name, "', which no node makes");
    return value;
  }

  void add_condition(const NodeProto& node, const std::vector<Value*>& inputs,
                     const std::vector<Value*>& outputs, const Scope& outer, int depth) {
    if (inputs.size() != 1 || inputs[0] == nullptr)
      throw Error(described(node), " needs one input, its condition");
    if (!inputs[0]->is_constant() || inputs[0]->values().count() != 1)
      throw Error(described(node), ": condition '", inputs[0]->name,
                  "' depends on values that are known only when the net runs. Nets have no "
                  "branches (If) and loops (Loop, Scan): export the model without them");
    const bool is_true = inputs[0]->values().at(0) != 0;
    const std::string_view wanted = is_true ? "then_branch" : "else_branch";
    const GraphProto* branch = nullptr;
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == wanted && attribute.has_g()) branch = &attribute.g();
    }
    if (branch == nullptr) throw Error(described(node), " has no ", wanted);
    Scope scope;
    scope.outer = &outer;
    scope.opsets = outer.opsets;
    scope.arguments = outer.arguments;
    scope.prefix = prefix_of(node);
    add_initialisers(*branch, scope);
    add_nodes(branch->node(), scope, depth + 1);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i >= static_cast<size_t>(branch->output_size()))
        throw Error(described(node), " wants output ", i, " of a branch of ",
                    branch->output_size());
      hand_over(found_output(branch->output(static_cast<int>(i)).name(), node, scope), outputs[i]);
    }
  }

  void add_outputs(Scope& scope) {
    std::set<std::string> seen;
    for (const ValueInfoProto& info : model_.graph().output()) {
      if (!seen.insert(info.name()).second)
        throw Error("two outputs of the model are called '", info.name(), "'");
      Value* const value = find(info.name(), scope);
      if (value == nullptr)
        throw Error("output '", info.name(), "' of the model is made by no node");
      value->is_output = true;
      graph_->outputs.push_back(value);
    }
  }

  const ModelProto& model_;
  const InputShapes& shapes_;
  std::unique_ptr<Graph> graph_;
  Opsets opsets_;
  std::map<std::string, const FunctionProto*> functions_;
  int64_t added_ = 0;
};

}  // namespace

std::unique_ptr<Graph> load_graph(const ModelProto& model, const InputShapes& shapes) {
  return Loader(model, shapes).load();
}

}  // namespace crema::onnx
