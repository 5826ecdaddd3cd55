// LSTM, GRU and RNN as layers LSTM and GRU, with what reorders their ends.
#include <algorithm>
#include <array>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

// A gate of an RNN as a GRU that is always open or always closed: its sigmoid is 1, or its weight
// 0, in f64 too.
constexpr double kOpenGate = 40;

struct Recurrence {
  int64_t steps = 0, batch = 0, inputs = 0, units = 0, directions = 1;
  bool is_reverse = false;
  bool is_batch_first = false;
  bool is_lstm = false, is_gru = false;
  bool linear_before_reset = true;
  bool exposes = false;
  Value* initial[2] = {nullptr, nullptr};
  ElementType type = TensorProto::FLOAT;

  int64_t gates() const { return is_lstm ? 4 : is_gru ? 3 : 1; }
};

bool is_zero(const Value* value) {
  if (value == nullptr) return true;
  if (!value->is_constant()) return false;
  const std::vector<double> values = value->values().doubles();
  return std::ranges::all_of(values, [](double each) { return each == 0; });
}

bool has_plain_functions(const Call& call, const Recurrence& form) {
  const std::vector<std::string> given = call.get_strings("activations");
  std::vector<std::string> plain = {"Tanh"};
  if (form.is_lstm) plain = {"Sigmoid", "Tanh", "Tanh"};
  if (form.is_gru) plain = {"Sigmoid", "Tanh"};
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != plain[i % plain.size()]) return false;
  }
  return !call.has_attribute("clip") && !call.has_attribute("activation_alpha") &&
         !call.has_attribute("activation_beta");
}

// None for what the layers do not compute.
std::optional<Recurrence> recurrence_of(const Graph& graph, const Node& node) {
  const Call call = node.call();
  Recurrence form;
  form.is_lstm = node.is("LSTM");
  form.is_gru = node.is("GRU");
  const Value *x = node.input(0), *w = node.input(1), *r = node.input(2), *b = node.input(3);
  if (x == nullptr || w == nullptr || r == nullptr || x->is_constant() || !w->is_constant() ||
      !r->is_constant() || (b != nullptr && !b->is_constant()) || !is_float(x->type()))
    return std::nullopt;
  if (x->shape().rank() != 3 || w->shape().rank() != 3 || r->shape().rank() != 3)
    return std::nullopt;
  form.type = x->type();
  form.is_batch_first = call.get_int("layout", 0) != 0;
  form.steps = x->shape()[form.is_batch_first ? 1 : 0];
  form.batch = x->shape()[form.is_batch_first ? 0 : 1];
  form.inputs = x->shape()[2];
  form.units = r->shape()[2];
  const std::string direction = call.get_string("direction", "forward");
  form.directions = direction == "bidirectional" ? 2 : 1;
  form.is_reverse = direction == "reverse";
  if (form.steps < 1 || form.batch < 1 || form.inputs < 1 || form.units < 1) return std::nullopt;
  const Shape wanted_w{form.directions, form.gates() * form.units, form.inputs};
  const Shape wanted_r{form.directions, form.gates() * form.units, form.units};
  const Shape wanted_b{form.directions, 2 * form.gates() * form.units};
  if (w->shape() != wanted_w || r->shape() != wanted_r || (b != nullptr && b->shape() != wanted_b))
    return std::nullopt;
  if (!has_plain_functions(call, form) || call.get_int("input_forget", 0) != 0) return std::nullopt;
  if (const Value* const lengths = node.input(4); lengths != nullptr) {
    if (!lengths->is_constant()) return std::nullopt;
    for (const int64_t length : lengths->values().integers()) {
      if (length != form.steps) return std::nullopt;
    }
  }
  if (form.is_lstm && !is_zero(node.input(7))) return std::nullopt;
  form.linear_before_reset = !form.is_gru || call.get_int("linear_before_reset", 0) != 0;
  form.initial[0] = node.input(5);
  form.initial[1] = form.is_lstm ? node.input(6) : nullptr;
  const bool wants_cells = node.output(2) != nullptr && graph.is_wanted(*node.output(2));
  form.exposes = wants_cells || !is_zero(form.initial[0]) || !is_zero(form.initial[1]);
  return form;
}

// Rows of blocks of `units` rows: for each block of the layer, the block of the model.
std::vector<int> gate_order(const Recurrence& form) {
  if (form.is_lstm) return {0, 2, 1, 3};  // i, o, f, c to i, f, o, g
  if (form.is_gru) return {1, 0, 2};      // z, r, h to r, z, n
  return {0};
}

class Weights {
 public:
  Weights(Graph& graph, const Node& node, const Recurrence& form)
      : graph_(graph), node_(node), form_(form) {}

  // The parameters of one direction, in the order of the layer.
  void add(int64_t direction, std::vector<Value*>& inputs) const {
    const int64_t units = form_.units, gates = form_.gates();
    const std::vector<double> w = part(1, direction), r = part(2, direction);
    std::vector<double> b(static_cast<size_t>(2 * gates * units), 0);
    if (node_.input(3) != nullptr) b = part(3, direction);
    const auto first = b.begin(), second = first + static_cast<std::ptrdiff_t>(gates * units);
    std::vector<double> sum(first, second);
    const bool splits_last = form_.is_gru && form_.linear_before_reset;
    for (size_t i = 0; i < sum.size(); ++i) {
      const bool is_last = static_cast<int64_t>(i) >= (gates - 1) * units;
      if (!splits_last || !is_last) sum[i] += second[static_cast<std::ptrdiff_t>(i)];
    }
    std::vector<double> input = reordered(w, form_.inputs), bias = reordered(sum, 1);
    std::vector<double> state = reordered(r, units);
    std::vector<double> candidate(second + static_cast<std::ptrdiff_t>((gates - 1) * units),
                                  b.end());
    int64_t blocks = gates;
    if (!form_.is_lstm && !form_.is_gru) {
      // h = tanh(...): the reset gate is open, and the update gate takes the candidate alone.
      blocks = 3;
      input.insert(input.begin(), static_cast<size_t>(2 * units * form_.inputs), 0);
      state.insert(state.begin(), static_cast<size_t>(2 * units * units), 0);
      bias.insert(bias.begin(), static_cast<size_t>(units), -kOpenGate);
      bias.insert(bias.begin(), static_cast<size_t>(units), kOpenGate);
      candidate.assign(static_cast<size_t>(units), 0);
    }
    inputs.push_back(constant("input", input, Shape{blocks * units, form_.inputs}));
    inputs.push_back(constant("bias", bias, Shape{blocks * units}));
    inputs.push_back(constant("state", state, Shape{blocks * units, units}));
    if (!form_.is_lstm && form_.linear_before_reset)
      inputs.push_back(constant("candidate", candidate, Shape{units}));
  }

 private:
  std::vector<double> part(size_t input, int64_t direction) const {
    const std::vector<double> all = node_.input(input)->values().doubles();
    const auto size = static_cast<std::ptrdiff_t>(all.size()) / form_.directions;
    return {all.begin() + direction * size, all.begin() + (direction + 1) * size};
  }
  std::vector<double> reordered(const std::vector<double>& rows, int64_t width) const {
    const auto block = static_cast<std::ptrdiff_t>(form_.units * width);
    std::vector<double> result;
    result.reserve(rows.size());
    for (const int gate : gate_order(form_)) {
      const auto begin = rows.begin() + gate * block;
      result.insert(result.end(), begin, begin + block);
    }
    return result;
  }
  Value* constant(std::string_view what, const std::vector<double>& values,
                  const Shape& shape) const {
    Value& result = graph_.add_constant(text(node_.input(1)->name, "_", what),
                                        Array::of_doubles(node_.input(1)->type(), shape, values));
    result.weight = node_.input(1)->weight;
    return &result;
  }

  Graph& graph_;
  const Node& node_;
  const Recurrence& form_;
};

Value& swapped(Graph& graph, Node& before, Value& x) {
  std::vector<int64_t> perm = {1, 0};
  for (int axis = 2; axis < x.shape().rank(); ++axis) perm.push_back(axis);
  return graph.add_step(&before, "Transpose", {&x}, {ints_attribute("perm", perm)});
}

Value& sliced(Graph& graph, Node& before, Value& x, const std::vector<int64_t>& axes,
              const std::vector<int64_t>& begins, const std::vector<int64_t>& ends) {
  return graph.add_step(
      &before, "Slice",
      {&x, &index_constant(graph, "begins", begins), &index_constant(graph, "ends", ends),
       &index_constant(graph, "axes", axes)});
}

// 0 at the first step, 1 at the others. One for all layers over as many steps and sequences.
Value& indicators(Graph& graph, Node& before, Value& x, const Recurrence& form) {
  const Shape shape{form.steps, form.batch};
  for (const Node* node : graph.nodes) {
    if (node == &before) break;
    if (node->is_layer("ContinuationIndicator") && node->output() != nullptr &&
        node->output()->shape() == shape)
      return *node->output();
  }
  Value& made = graph.add_value("indicators");
  made.known.type = form.type;
  made.known.shape = shape;
  graph.add_layer(&before, "ContinuationIndicator", {&x}, {&made}).message.set_name("indicators");
  return made;
}

Value& constant_of_number(Graph& graph, std::string_view name, const Recurrence& form,
                          const Shape& shape, double number) {
  graph.need_room(static_cast<double>(shape.count()) * sizeof(double));
  const std::vector<double> numbers(static_cast<size_t>(shape.count()), number);
  return graph.add_constant(name, Array::of_doubles(form.type, shape, numbers));
}

// The states that the model begins with, (directions, N, H).
Value& initial_state(Graph& graph, Node& before, Value* given, const Recurrence& form) {
  if (given == nullptr)
    return constant_of_number(graph, "initial_state", form,
                              Shape{form.directions, form.batch, form.units}, 0);
  return form.is_batch_first ? swapped(graph, before, *given) : *given;
}

void put_all_states(Graph& graph, Node& node, Value& h, const Recurrence& form) {
  if (form.directions == 1) {
    Value& rows = form.is_batch_first ? swapped(graph, node, h) : h;
    const int64_t axis = form.is_batch_first ? 2 : 1;
    graph.substitute(node, "Unsqueeze", {&rows, &index_constant(graph, "directions", {axis})});
    return;
  }
  Value& split = graph.add_step(
      &node, "Reshape",
      {&h, &index_constant(graph, "states_shape", {form.steps, form.batch, 2, form.units})});
  const std::vector<int64_t> perm =
      form.is_batch_first ? std::vector<int64_t>{1, 0, 2, 3} : std::vector<int64_t>{0, 2, 1, 3};
  graph.substitute(node, "Transpose", {&split}, {ints_attribute("perm", perm)});
}

// The states behind the last step of each direction, from those of all steps.
Value& last_states(Graph& graph, Node& node, Value& h, const Recurrence& form) {
  if (form.directions == 1) return sliced(graph, node, h, {0}, {form.steps - 1}, {form.steps});
  Value& forward = sliced(graph, node, h, {0, 2}, {form.steps - 1, 0}, {form.steps, form.units});
  Value& backward = sliced(graph, node, h, {0, 2}, {0, form.units}, {1, 2 * form.units});
  return graph.add_step(&node, "Concat", {&forward, &backward}, {int_attribute("axis", 0)});
}

// Gives the readers of output `i` the value.
void hand_over(Graph& graph, Node& node, size_t i, Value& from, const Recurrence& form) {
  Value* const to = node.output(i);
  if (to == nullptr || !graph.is_wanted(*to)) return;
  Value& value = form.is_batch_first ? swapped(graph, node, from) : from;
  node.outputs[i] = nullptr;
  node.message.set_output(static_cast<int>(i), "");
  graph.add_node(&node, "Identity", {&value}, {to});
}

}  // namespace

bool find_recurrent(Graph& graph, Node& node) {
  if (!node.is("LSTM") && !node.is("GRU") && !node.is("RNN")) return false;
  const auto form = recurrence_of(graph, node);
  if (!form) return false;
  Value* x = node.input(0);
  if (form->is_batch_first) x = &swapped(graph, node, *x);
  Value& ordered = *x;
  if (form->is_reverse)
    x = &graph.add_layer_step(&node, "Reverse", {x}, form->type, x->shape(),
                              {int_attribute("axis", 0)});
  const bool begins_given = !is_zero(form->initial[0]) || !is_zero(form->initial[1]);
  Value& cont = begins_given ? constant_of_number(graph, "indicators", *form,
                                                  Shape{form->steps, form->batch}, 1)
                             : indicators(graph, node, ordered, *form);
  std::vector<Value*> inputs = {x, &cont};
  if (form->exposes) {
    inputs.push_back(&initial_state(graph, node, form->initial[0], *form));
    if (form->is_lstm) inputs.push_back(&initial_state(graph, node, form->initial[1], *form));
  }
  const size_t bottoms = inputs.size();
  const Weights weights(graph, node, *form);
  for (int64_t direction = 0; direction < form->directions; ++direction)
    weights.add(direction, inputs);
  NodeAttributes attributes = {int_attribute("num_output", form->units)};
  if (form->exposes) attributes.push_back(int_attribute("expose_hidden", 1));
  if (form->directions == 2) attributes.push_back(int_attribute("bidirectional", 1));
  if (form->is_gru && !form->linear_before_reset)
    attributes.push_back(int_attribute("linear_before_reset", 0));
  if (node.is("RNN"))
    graph.notes.push_back(
        text(described(node),
             " is computed by a layer GRU whose gates are fixed: its first rows are no weights"));
  const auto add_top = [&](std::string_view what, const Shape& shape) -> Value& {
    Value& top = graph.add_value(text(ordered.name, "_", what));
    top.known.type = form->type;
    top.known.shape = shape;
    return top;
  };
  Value* h = &add_top("states", Shape{form->steps, form->batch, form->directions * form->units});
  std::vector<Value*> tops = {h};
  const Shape last{form->directions, form->batch, form->units};
  if (form->exposes) tops.push_back(&add_top("last_state", last));
  if (form->exposes && form->is_lstm) tops.push_back(&add_top("last_cells", last));
  graph.add_layer(&node, form->is_lstm ? "LSTM" : "GRU", inputs, tops, std::move(attributes))
      .bottoms = bottoms;
  if (node.output(1) != nullptr && graph.is_wanted(*node.output(1)))
    hand_over(graph, node, 1, form->exposes ? *tops[1] : last_states(graph, node, *h, *form),
              *form);
  if (form->is_lstm && form->exposes) hand_over(graph, node, 2, *tops[2], *form);
  if (node.output(0) != nullptr && graph.is_wanted(*node.output(0))) {
    if (form->is_reverse)
      h = &graph.add_layer_step(&node, "Reverse", {h}, form->type, h->shape(),
                                {int_attribute("axis", 0)});
    put_all_states(graph, node, *h, *form);
  }
  // Nothing is left for the node to make.
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    node.outputs[i] = nullptr;
    node.message.set_output(static_cast<int>(i), "");
  }
  return true;
}

}  // namespace crema::onnx
