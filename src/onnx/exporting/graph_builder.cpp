#include "onnx/exporting/graph_builder.hpp"

#include <algorithm>
#include <limits>
#include <ranges>

#include "crema/error.hpp"

namespace crema::onnx {
namespace {

/// Constants of more elements are not looked for among those that layers share.
constexpr int64_t kShared = 64;

bool are_same(const Array& a, const Array& b) {
  return a.type() == b.type() && a.shape() == b.shape() && std::ranges::equal(a.bytes(), b.bytes());
}

}  // namespace

void set_attribute(NodeProto& node, const std::string& name, const AttributeValue& value) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    attribute.set_type(AttributeProto::INT);
    attribute.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    attribute.set_type(AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(*f));
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    attribute.set_type(AttributeProto::STRING);
    attribute.set_s(*s);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    attribute.set_type(AttributeProto::INTS);
    attribute.mutable_ints()->Assign(ints->begin(), ints->end());
  } else if (const auto* floats = std::get_if<std::vector<double>>(&value)) {
    attribute.set_type(AttributeProto::FLOATS);
    for (const double one : *floats) attribute.add_floats(static_cast<float>(one));
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    attribute.set_type(AttributeProto::STRINGS);
    for (const std::string& one : *strings) attribute.add_strings(one);
  } else {
    attribute.set_type(AttributeProto::TENSOR);
    *attribute.mutable_t() = message_of(std::get<Array>(value), "");
  }
}

GraphBuilder::GraphBuilder(int opset) : opset_(opset) {
  if (opset < 13 || opset > 23)
    throw Error("opset ", opset, " cannot be written; give one from 13 to 23");
}

void GraphBuilder::need_fixed_batch(std::string_view why) const {
  if (open_batch_) throw Error("needs a batch of a fixed size: ", why);
}

void GraphBuilder::begin_layer(std::string_view name, bool open_batch) {
  layer_ = name;
  open_batch_ = open_batch;
  unnamed_.clear();
  first_node_ = graph_.node_size();
}

void GraphBuilder::finish_layer() {
  const int last = graph_.node_size() - 1;
  if (last <= first_node_ || graph_.node(first_node_).name() != layer_) return;
  NodeProto& first = *graph_.mutable_node(first_node_);
  NodeProto& named = *graph_.mutable_node(last);
  first.set_name(new_node_name(first.op_type()));
  node_names_.erase(named.name());
  named.set_name(layer_);
}

std::string GraphBuilder::new_node_name(std::string_view op) {
  const std::string base = text(layer_.empty() ? "" : layer_ + "/", op);
  std::string name = base;
  // A layer may have thousands of nodes of one operator.
  for (int& i = node_numbers_[base]; !node_names_.insert(name).second;) name = text(base, "_", ++i);
  return name;
}

void GraphBuilder::finish(const std::string& x, const std::string& output) {
  if (unnamed_.erase(x) == 0) return alias(output, x);
  for (int i = first_node_; i < graph_.node_size(); ++i) {
    NodeProto& node = *graph_.mutable_node(i);
    std::ranges::replace(*node.mutable_output(), x, output);
    std::ranges::replace(*node.mutable_input(), x, output);
  }
  taken_.erase(x);
}

std::string GraphBuilder::new_name(std::string_view hint) {
  std::string name(hint);
  for (int& i = numbers_[name]; !taken_.insert(name).second;) name = text(hint, "_", ++i);
  return name;
}

const std::string& GraphBuilder::resolved(const std::string& name) const {
  const std::string* now = &name;
  for (auto found = aliases_.find(*now); found != aliases_.end(); found = aliases_.find(*now)) {
    now = &found->second;
  }
  return *now;
}

NodeProto& GraphBuilder::add_message(std::string_view op, const Names& inputs, Names& outputs,
                                     const Attributes& attributes) {
  NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(op));
  // finish_layer() gives the last one the layer's name.
  std::string name = layer_.empty() ? std::string(op) : layer_;
  if (!node_names_.insert(name).second) name = new_node_name(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(resolved(input));
  for (std::string& output : outputs) {
    if (output.empty()) {
      output = new_name(name + "_out");
      unnamed_.insert(output);
    }
    node.add_output(output);
  }
  for (const auto& [key, value] : attributes) set_attribute(node, key, value);
  return node;
}

std::string GraphBuilder::add(std::string_view op, Names inputs, Attributes attributes,
                              std::string output) {
  Names outputs{std::move(output)};
  add_message(op, inputs, outputs, attributes);
  return outputs[0];
}

Names GraphBuilder::add_many(std::string_view op, Names inputs, Names outputs,
                             Attributes attributes) {
  add_message(op, inputs, outputs, attributes);
  return outputs;
}

Names GraphBuilder::add_custom(std::string_view op, Names inputs, Names outputs,
                               Attributes attributes) {
  add_message(op, inputs, outputs, attributes).set_domain("crema");
  has_custom_ = true;
  return outputs;
}

void GraphBuilder::add_foreign(
    std::string_view op, const std::string& domain, const Names& inputs, Names outputs,
    const google::protobuf::RepeatedPtrField<AttributeProto>& attributes) {
  NodeProto& node = add_message(op, inputs, outputs, {});
  if (!domain.empty() && domain != "ai.onnx") node.set_domain(domain);
  *node.mutable_attribute() = attributes;
}

void GraphBuilder::initializer(const std::string& name, const Array& values) {
  reserve(name);
  *graph_.add_initializer() = message_of(values, name);
}

std::string GraphBuilder::constant(const Array& values, std::string_view hint) {
  if (!hint.empty()) {
    const std::string name = new_name(layer_.empty() ? std::string(hint) : text(layer_, ".", hint));
    *graph_.add_initializer() = message_of(values, name);
    return name;
  }
  const bool shared = values.count() <= kShared;
  if (shared) {
    for (const auto& [known, name] : constants_) {
      if (are_same(known, values)) return name;
    }
  }
  const std::string name = new_name("constant");
  *graph_.add_initializer() = message_of(values, name);
  if (shared) constants_.emplace_back(values, name);
  return name;
}

std::string GraphBuilder::floats(const Shape& shape, std::span<const double> values,
                                 std::string_view hint) {
  return constant(Array::of_doubles(TensorProto::FLOAT, shape, values), hint);
}

std::string GraphBuilder::number(double value) {
  return constant(Array::scalar(TensorProto::FLOAT, value));
}

std::string GraphBuilder::ints(const std::vector<int64_t>& values) {
  return constant(Array::of_indices(values));
}

std::string GraphBuilder::index(int64_t value) {
  return constant(Array::of_integers(TensorProto::INT64, Shape{}, std::vector<int64_t>{value}));
}

std::string GraphBuilder::reshape(const std::string& x, const std::vector<int64_t>& dims,
                                  std::string output) {
  return add("Reshape", {x, ints(dims)}, {}, std::move(output));
}

std::string GraphBuilder::reshape(const std::string& x, const Shape& to, std::string output) {
  std::vector<int64_t> dims = to.dims();
  if (open_batch_) {
    if (dims.empty()) need_fixed_batch("its values become a scalar");
    dims[0] = -1;
  }
  return reshape(x, dims, std::move(output));
}

std::string GraphBuilder::unsqueeze(const std::string& x, const std::vector<int64_t>& axes,
                                    std::string output) {
  return add("Unsqueeze", {x, ints(axes)}, {}, std::move(output));
}

std::string GraphBuilder::squeeze(const std::string& x, const std::vector<int64_t>& axes,
                                  std::string output) {
  return add("Squeeze", {x, ints(axes)}, {}, std::move(output));
}

std::string GraphBuilder::reduce(std::string_view op, const std::string& x,
                                 const std::vector<int64_t>& axes, bool keepdims,
                                 std::string output) {
  const int64_t keep = keepdims ? 1 : 0;
  if (op == "ReduceSum" || opset_ >= 18)
    return add(op, {x, ints(axes)}, {{"keepdims", keep}}, std::move(output));
  return add(op, {x}, {{"axes", axes}, {"keepdims", keep}}, std::move(output));
}

Names GraphBuilder::split(const std::string& x, int64_t axis, const std::vector<int64_t>& sizes,
                          Names outputs) {
  outputs.resize(sizes.size());
  return add_many("Split", {x, ints(sizes)}, std::move(outputs), {{"axis", axis}});
}

std::string GraphBuilder::slice(const std::string& x, const std::vector<int64_t>& axes,
                                const std::vector<int64_t>& begins,
                                const std::vector<int64_t>& ends, const std::vector<int64_t>& steps,
                                std::string output) {
  Names inputs{x, ints(begins), ints(ends), ints(axes)};
  if (!steps.empty()) inputs.push_back(ints(steps));
  return add("Slice", std::move(inputs), {}, std::move(output));
}

std::string GraphBuilder::pad(const std::string& x, const std::vector<int64_t>& pads, double value,
                              std::string_view mode, std::string output) {
  Names inputs{x, ints(pads)};
  if (mode == "constant") inputs.push_back(number(value));
  return add("Pad", std::move(inputs), {{"mode", std::string(mode)}}, std::move(output));
}

std::string GraphBuilder::transpose(const std::string& x, const std::vector<int64_t>& order,
                                    std::string output) {
  return add("Transpose", {x}, {{"perm", order}}, std::move(output));
}

std::string GraphBuilder::concat(const Names& x, int64_t axis, std::string output) {
  return add("Concat", x, {{"axis", axis}}, std::move(output));
}

std::string GraphBuilder::cast(const std::string& x, ElementType type, std::string output) {
  return add("Cast", {x}, {{"to", int64_t{type}}}, std::move(output));
}

std::string GraphBuilder::clip(const std::string& x, std::optional<double> low,
                               std::optional<double> high, std::string output) {
  Names inputs{x};
  if (low || high) inputs.push_back(low ? number(*low) : "");
  if (high) inputs.push_back(number(*high));
  return add("Clip", std::move(inputs), {}, std::move(output));
}

void GraphBuilder::remove_unused(const Names& outputs) {
  std::set<std::string, std::less<>> needed(outputs.begin(), outputs.end());
  std::vector<bool> keeps(static_cast<size_t>(graph_.node_size()));
  for (int i = graph_.node_size() - 1; i >= 0; --i) {
    NodeProto& node = *graph_.mutable_node(i);
    const auto is_needed = [&](const std::string& name) { return needed.contains(name); };
    if (!std::ranges::any_of(node.output(), is_needed)) continue;
    keeps[static_cast<size_t>(i)] = true;
    needed.insert(node.input().begin(), node.input().end());
    // A last output that nobody reads need not be computed, where the operator may leave it out.
    while (node.op_type() != "Split" && node.op_type() != "TopK" && node.domain().empty() &&
           node.output_size() > 1 && !is_needed(node.output(node.output_size() - 1))) {
      node.mutable_output()->RemoveLast();
    }
  }
  google::protobuf::RepeatedPtrField<NodeProto> nodes;
  for (int i = 0; i < graph_.node_size(); ++i) {
    if (keeps[static_cast<size_t>(i)]) nodes.Add(std::move(*graph_.mutable_node(i)));
  }
  graph_.mutable_node()->Swap(&nodes);
  google::protobuf::RepeatedPtrField<TensorProto> constants;
  for (TensorProto& one : *graph_.mutable_initializer()) {
    if (needed.contains(one.name())) constants.Add(std::move(one));
  }
  graph_.mutable_initializer()->Swap(&constants);
}

}  // namespace crema::onnx
