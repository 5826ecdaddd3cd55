#include "onnx/importing/graph.hpp"

#include <algorithm>

namespace crema::onnx {

namespace {

// What a model may ask for, whatever its size, and by each byte of its constants.
constexpr double kMaxMadeBytes = 2.0 * (1 << 30);
constexpr double kTimesLoaded = 8;
constexpr double kMaxSteps = 2e9;
constexpr double kStepsOfByte = 64;
// From so many readers of a value on, the places of all are kept.
constexpr size_t kManyReaders = 32;

std::string described_as(const std::string& name, const std::string& op, const std::string& domain,
                         const std::string& made) {
  const std::string type = domain.empty() ? op : domain + "." + op;
  if (!name.empty()) return text("node '", name, "' (", type, ")");
  if (!made.empty()) return text("node (", type, ") that makes '", made, "'");
  return text("node (", type, ")");
}

}  // namespace

std::string described(const NodeProto& node) {
  return described_as(node.name(), node.op_type(), node.domain(),
                      node.output_size() > 0 ? node.output(0) : std::string());
}

std::string described(const Node& node) {
  std::string made;
  for (const Value* output : node.outputs) {
    if (output != nullptr && made.empty()) made = output->name;
  }
  return described_as(node.message.name(), node.op(), node.message.domain(), made);
}

std::string said_of_operator(const std::string& op, const Error& error) {
  std::string said = error.message();
  const std::string prefix = op + ": ";
  if (said.starts_with(prefix)) said.erase(0, prefix.size());
  return said;
}

Call Node::call() const {
  std::vector<const Operand*> operands;
  operands.reserve(inputs.size());
  for (const Value* input : inputs) operands.push_back(input == nullptr ? nullptr : &input->known);
  return Call(message, opset, std::move(operands));
}

std::string Graph::free_name(std::string_view wanted) {
  std::string base = wanted.empty() ? std::string("value") : std::string(wanted);
  if (!by_name_.contains(base)) return base;
  int& number = numbers_[base];
  for (;;) {
    std::string numbered = text(base, "_", ++number);
    if (!by_name_.contains(numbered)) return numbered;
  }
}

Value& Graph::add_value(std::string_view wanted) {
  values_.emplace_back();
  Value& value = values_.back();
  value.name = free_name(wanted);
  by_name_[value.name] = &value;
  return value;
}

bool Graph::take_room(double bytes) {
  if (made_bytes_ + bytes > static_cast<double>(kMaxFoldedBytes) + kTimesLoaded * loaded_bytes_)
    return false;
  made_bytes_ += bytes;
  return true;
}

bool Graph::take_steps(double steps) {
  if (steps_ + steps > kMaxSteps + kStepsOfByte * loaded_bytes_) return false;
  steps_ += steps;
  return true;
}

void Graph::need_room(double bytes) {
  made_bytes_ += bytes;
  if (made_bytes_ > kMaxMadeBytes + kTimesLoaded * loaded_bytes_)
    throw Error(
        "the model becomes much larger than it is: what is made of its functions and "
        "constants takes more than ",
        static_cast<int64_t>(kMaxMadeBytes) >> 20, " MiB beside ", kTimesLoaded,
        " times its weights");
}

Value& Graph::add_constant(std::string_view wanted, Array values) {
  need_room(static_cast<double>(values.bytes().size()));
  Value& value = add_value(wanted);
  value.known.type = values.type();
  value.known.shape = values.shape();
  value.known.constant = std::move(values);
  return value;
}

Node& Graph::insert(Node* before, Node node) {
  node_store_.push_back(std::move(node));
  Node& stored = node_store_.back();
  NodeProto& message = stored.message;
  message.clear_input();
  message.clear_output();
  for (const Value* input : stored.inputs) {
    message.add_input(input == nullptr ? std::string() : input->name);
    if (input != nullptr) add_reader(*input, stored);
  }
  for (size_t i = 0; i < stored.outputs.size(); ++i) {
    Value* const output = stored.outputs[i];
    message.add_output(output == nullptr ? std::string() : output->name);
    if (output == nullptr) continue;
    output->producer = &stored;
    output->output = i;
  }
  stored.place = nodes.insert(before == nullptr ? nodes.end() : before->place, &stored);
  return stored;
}

Node& Graph::append(NodeProto message, int64_t opset, std::vector<Value*> node_inputs,
                    std::vector<Value*> node_outputs) {
  Node node;
  node.message = std::move(message);
  node.opset = opset;
  node.inputs = std::move(node_inputs);
  node.outputs = std::move(node_outputs);
  return insert(nullptr, std::move(node));
}

Node& Graph::add_node(Node* before, std::string_view op, std::vector<Value*> node_inputs,
                      std::vector<Value*> node_outputs, NodeAttributes attributes) {
  Node node;
  node.message.set_op_type(std::string(op));
  if (before != nullptr) node.message.set_name(before->message.name());
  for (AttributeProto& attribute : attributes) *node.message.add_attribute() = std::move(attribute);
  node.opset = kNewestOpset;
  node.inputs = std::move(node_inputs);
  node.outputs = std::move(node_outputs);
  Node& added = insert(before, std::move(node));
  const bool is_known = std::ranges::all_of(added.outputs, [](const Value* output) {
    return output == nullptr || output->known.type != TensorProto::UNDEFINED;
  });
  if (!is_known) infer_node(*this, added);
  return added;
}

Value& Graph::add_step(Node* before, std::string_view op, std::vector<Value*> node_inputs,
                       NodeAttributes attributes) {
  const std::string near =
      before != nullptr && before->output() != nullptr ? before->output()->name : "step";
  Value& made = add_value(near + "_" + std::string(op));
  add_node(before, op, std::move(node_inputs), {&made}, std::move(attributes));
  return made;
}

Node& Graph::add_layer(Node* before, std::string_view type, std::vector<Value*> node_inputs,
                       std::vector<Value*> node_outputs, NodeAttributes attributes) {
  Node node;
  node.message.set_op_type(std::string(type));
  node.message.set_domain(std::string(kLayerDomain));
  if (before != nullptr) node.message.set_name(before->message.name());
  for (AttributeProto& attribute : attributes) *node.message.add_attribute() = std::move(attribute);
  node.opset = 1;
  node.inputs = std::move(node_inputs);
  node.outputs = std::move(node_outputs);
  return insert(before, std::move(node));
}

Value& Graph::add_layer_step(Node* before, std::string_view type, std::vector<Value*> node_inputs,
                             ElementType element, const Shape& shape, NodeAttributes attributes) {
  const std::string near =
      before != nullptr && before->output() != nullptr ? before->output()->name : "step";
  Value& made = add_value(near + "_" + std::string(type));
  made.known.type = element;
  made.known.shape = shape;
  add_layer(before, type, std::move(node_inputs), {&made}, std::move(attributes));
  return made;
}

Node& Graph::substitute_in(Node& node, std::string_view domain, std::string_view op,
                           std::vector<Value*> node_inputs, NodeAttributes attributes) {
  Value* const made = node.output();
  node.outputs[0] = nullptr;
  node.message.set_output(0, "");
  return domain.empty()
             ? add_node(&node, op, std::move(node_inputs), {made}, std::move(attributes))
             : add_layer(&node, op, std::move(node_inputs), {made}, std::move(attributes));
}

Node& Graph::substitute(Node& node, std::string_view op, std::vector<Value*> node_inputs,
                        NodeAttributes attributes) {
  return substitute_in(node, {}, op, std::move(node_inputs), std::move(attributes));
}

Node& Graph::substitute_layer(Node& node, std::string_view type, std::vector<Value*> node_inputs,
                              NodeAttributes attributes) {
  return substitute_in(node, kLayerDomain, type, std::move(node_inputs), std::move(attributes));
}

const std::vector<Node*>& Graph::readers(const Value& value) const {
  static const std::vector<Node*> none;
  const auto found = readers_.find(&value);
  return found == readers_.end() ? none : found->second.nodes;
}

Node* Graph::only_reader(const Value& value) const {
  const std::vector<Node*>& list = readers(value);
  return !value.is_output && list.size() == 1 ? list.front() : nullptr;
}

void Graph::add_reader(const Value& value, Node& node) {
  Readers& readers = readers_[&value];
  if (!readers.places.empty()) {
    if (readers.places.try_emplace(&node, readers.nodes.size()).second)
      readers.nodes.push_back(&node);
    return;
  }
  if (std::ranges::find(readers.nodes, &node) != readers.nodes.end()) return;
  readers.nodes.push_back(&node);
  if (readers.nodes.size() < kManyReaders) return;
  for (size_t i = 0; i < readers.nodes.size(); ++i) readers.places[readers.nodes[i]] = i;
}

void Graph::forget_reader(const Value& value, const Node& node) {
  const auto found = readers_.find(&value);
  if (found == readers_.end()) return;
  Readers& readers = found->second;
  if (readers.places.empty()) {
    std::erase(readers.nodes, &node);
    return;
  }
  const auto known = readers.places.find(&node);
  if (known == readers.places.end()) return;
  const size_t place = known->second;
  readers.places.erase(known);
  if (place + 1 < readers.nodes.size()) {
    readers.nodes[place] = readers.nodes.back();
    readers.places[readers.nodes[place]] = place;
  }
  readers.nodes.pop_back();
}

void Graph::set_input(Node& node, size_t i, Value* value) {
  if (node.inputs.size() <= i) {
    node.inputs.resize(i + 1);
    while (static_cast<size_t>(node.message.input_size()) <= i) node.message.add_input("");
  }
  Value* const old = node.inputs[i];
  node.inputs[i] = value;
  node.message.set_input(static_cast<int>(i), value == nullptr ? std::string() : value->name);
  if (old != nullptr && std::ranges::find(node.inputs, old) == node.inputs.end())
    forget_reader(*old, node);
  if (value != nullptr) add_reader(*value, node);
}

void Graph::replace(Value& old, Value& by) {
  if (&old == &by) return;
  const std::vector<Node*> list = readers(old);
  for (Node* node : list) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (node->inputs[i] != &old) continue;
      node->inputs[i] = &by;
      node->message.set_input(static_cast<int>(i), by.name);
    }
    forget_reader(old, *node);
    add_reader(by, *node);
  }
  if (!old.is_output || by.is_input || by.is_output || by.producer == nullptr) return;
  const std::string kept = old.name;
  by_name_.erase(old.name);
  by_name_.erase(by.name);
  by.name = kept;
  by_name_[kept] = &by;
  old.is_output = false;
  old.name = free_name(kept);
  by_name_[old.name] = &old;
  by.is_output = true;
  std::ranges::replace(outputs, &old, &by);
}

void Graph::remove_dead() {
  for (auto each = nodes.end(); each != nodes.begin();) {
    Node& node = **--each;
    const bool is_read = std::ranges::any_of(node.outputs, [&](const Value* output) {
      return output != nullptr && output->producer == &node && is_wanted(*output);
    });
    if (is_read) continue;
    for (const Value* input : node.inputs) {
      if (input != nullptr) forget_reader(*input, node);
    }
    for (Value* output : node.outputs) {
      if (output != nullptr && output->producer == &node) output->producer = nullptr;
    }
    node.inputs.clear();
    node.outputs.clear();
    node.place = nodes.end();
    each = nodes.erase(each);
  }
}

std::optional<int64_t> Graph::open_batch() const {
  for (const Value* input : inputs) {
    if (!input->open_axes.empty() && input->open_axes[0]) return input->shape()[0];
  }
  return std::nullopt;
}

Value* Graph::find(std::string_view value_name) const {
  const auto found = by_name_.find(value_name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace crema::onnx
