// LSTM and GRU whose steps are nodes of their own, as Crema exports those whose sequences may begin
// anywhere: `cont`, an input of the model, multiplies the state in front of each step.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

constexpr int kOfUnits = 2;  // the axis of gates and units in (T, N, H)

// Part `part` of a Split along the axis, into `parts`.
const Node* split_of(const Value* value, int axis, size_t part, size_t parts) {
  const Node* const node = maker_of(value, "Split");
  if (node == nullptr || value->output != part || node->outputs.size() != parts) return nullptr;
  const Call call = node->call();
  const int rank = node->input(0)->shape().rank();
  return call.canonical(call.get_int("axis", 0), rank) == axis ? node : nullptr;
}

const Value* operand(const Value* value, std::string_view op, size_t i = 0) {
  const Node* const node = maker_of(value, op);
  return node == nullptr ? nullptr : node->input(i);
}

class Steps {
 public:
  explicit Steps(const Node& concat)
      : states_(concat.inputs), units_(concat.output()->shape()[-1]) {}

  Value* x = nullptr;
  Value* cont = nullptr;  // (T, N)
  Value *input_weight = nullptr, *bias = nullptr, *state_weight = nullptr;
  Value* state_bias = nullptr;  // of a GRU that is linear before its reset gate
  bool is_linear = false;

  bool are_lstm() { return are_steps(&Steps::is_lstm_step) && has_shapes(4); }
  bool are_gru() {
    return are_steps(&Steps::is_gru_step) && has_shapes(3) &&
           (!is_linear || (state_bias != nullptr && state_bias->shape() == Shape{units_}));
  }

 private:
  using Step = bool (Steps::*)(size_t t);

  bool are_steps(Step is_step) {
    for (size_t t = 0; t < states_.size(); ++t) {
      if (states_[t] == nullptr || !(this->*is_step)(t)) return false;
    }
    return cont != nullptr && x != nullptr;
  }

  bool has_shapes(int64_t gates) const {
    const auto steps = static_cast<int64_t>(states_.size());
    if (x->shape().rank() != 3 || x->shape()[0] != steps || state_weight == nullptr) return false;
    return cont->shape() == Shape{steps, x->shape()[1]} &&
           input_weight->shape() == Shape{x->shape()[2], gates * units_} &&
           bias->shape() == Shape{gates * units_} &&
           state_weight->shape() == Shape{units_, gates * units_};
  }

  // The sums of all gates over the input, of step t.
  bool is_input_of(const Value* sums, size_t t) {
    const Node* const split = split_of(sums, 0, t, states_.size());
    const Node* const sum = split == nullptr ? nullptr : maker_of(split->input(0), "Add");
    const Node* const product = sum == nullptr ? nullptr : maker_of(sum->input(0), "MatMul");
    if (product == nullptr || !product->input(1)->is_constant() || !sum->input(1)->is_constant())
      return false;
    if (t == 0) {
      x = product->input(0);
      input_weight = product->input(1);
      bias = sum->input(1);
    }
    return x == product->input(0) && input_weight == product->input(1) && bias == sum->input(1);
  }

  // before * cont, of step t.
  bool is_kept(const Value* value, const Value* before, size_t t) {
    const Node* const product = maker_of(value, "Mul");
    if (product == nullptr || product->input(0) != before) return false;
    const Node* const split = split_of(product->input(1), 0, t, states_.size());
    const Node* const unsqueeze =
        split == nullptr ? nullptr : maker_of(split->input(0), "Unsqueeze");
    if (unsqueeze == nullptr) return false;
    Value* const marks = unsqueeze->input(0);
    if (marks->shape().rank() != 2 || unsqueeze->output()->shape()[-1] != 1) return false;
    if (cont == nullptr) cont = marks;
    return cont == marks;
  }

  // kept * state_weight; `kept` is the state in front of step t.
  bool is_of_state(const Value* value, const Value*& kept, size_t t) {
    const Node* const product = maker_of(value, "MatMul");
    if (product == nullptr || !product->input(1)->is_constant()) return false;
    if (state_weight == nullptr) state_weight = product->input(1);
    kept = product->input(0);
    return state_weight == product->input(1) && is_kept(kept, states_[t - 1], t);
  }

  bool has_units(const Value* value, int64_t times) const {
    return value->shape().rank() == 3 && value->shape()[kOfUnits] == times * units_;
  }

  // h = o * tanh(c), c = f * c' + i * g.
  bool is_lstm_step(size_t t) {
    const Node* const product = maker_of(states_[t], "Mul");
    if (product == nullptr) return false;
    const Node* const gates = split_of(product->input(0), kOfUnits, 2, 3);
    const Value* const cell = operand(product->input(1), "Tanh");
    const Value* const part = gates == nullptr ? nullptr : operand(gates->input(0), "Sigmoid");
    const Node* const parts = part == nullptr ? nullptr : split_of(part, kOfUnits, 0, 2);
    if (cell == nullptr || parts == nullptr || !has_units(part, 3)) return false;
    for (const Value* gate : gates->outputs) {
      if (gate == nullptr || !has_units(gate, 1)) return false;
    }
    const Value* added = cell;
    if (t > 0) {
      const Node* const sum = maker_of(cell, "Add");
      const Node* const kept = sum == nullptr ? nullptr : maker_of(sum->input(0), "Mul");
      if (kept == nullptr || kept->input(0) != gates->output(1) ||
          !is_kept(kept->input(1), cell_, t))
        return false;
      added = sum->input(1);
    }
    const Node* const candidate = maker_of(added, "Mul");
    if (candidate == nullptr || candidate->input(0) != gates->output(0) ||
        operand(candidate->input(1), "Tanh") != parts->output(1) || parts->output(1) == nullptr)
      return false;
    cell_ = cell;
    const Value* const sums = parts->input(0);
    if (t == 0) return is_input_of(sums, t);
    const Node* const sum = maker_of(sums, "Add");
    const Value* kept = nullptr;
    return sum != nullptr && is_input_of(sum->input(0), t) && is_of_state(sum->input(1), kept, t);
  }

  // h = (1 - z) * n + z * h'.
  bool is_gru_step(size_t t) {
    const Value* fresh = states_[t];
    const Node* old = nullptr;
    if (t > 0) {
      const Node* const sum = maker_of(fresh, "Add");
      old = sum == nullptr ? nullptr : maker_of(sum->input(1), "Mul");
      if (old == nullptr) return false;
      fresh = sum->input(0);
    }
    const Node* const product = maker_of(fresh, "Mul");
    const Node* const rest = product == nullptr ? nullptr : maker_of(product->input(0), "Sub");
    const Value* const candidate =
        product == nullptr ? nullptr : operand(product->input(1), "Tanh");
    if (rest == nullptr || candidate == nullptr || number_of(rest->input(0)) != 1) return false;
    const Value* const z = rest->input(1);
    const Node* const gates = split_of(z, kOfUnits, 1, 2);
    const Value* const gate_sums = gates == nullptr ? nullptr : operand(gates->input(0), "Sigmoid");
    const Value* const r = gates == nullptr ? nullptr : gates->output(0);
    if (gate_sums == nullptr || r == nullptr || !has_units(z, 1) || !has_units(r, 1)) return false;
    if (t > 0 && old->input(0) != z) return false;
    return is_gru_input(t, gate_sums, candidate, r, old == nullptr ? nullptr : old->input(1));
  }

  // The sums that the gates and the candidate are made of. `kept`: the state in front of step t.
  bool is_gru_input(size_t t, const Value* gate_sums, const Value* candidate, const Value* r,
                    const Value* kept) {
    const Node* state_parts = nullptr;
    const Value* of_input = gate_sums;
    if (t > 0) {
      const Node* const sum = maker_of(gate_sums, "Add");
      state_parts = sum == nullptr ? nullptr : split_of(sum->input(1), kOfUnits, 0, 2);
      const Value* found = nullptr;
      if (state_parts == nullptr || !has_units(sum->input(1), 2) ||
          !is_of_state(state_parts->input(0), found, t) || found != kept)
        return false;
      of_input = sum->input(0);
    }
    const Node* const parts = split_of(of_input, kOfUnits, 0, 2);
    if (parts == nullptr || !has_units(of_input, 2) || !is_input_of(parts->input(0), t))
      return false;
    if (t == 0 && candidate == parts->output(1)) return !is_linear;
    const Node* const sum = maker_of(candidate, "Add");
    if (sum == nullptr || sum->input(0) != parts->output(1)) return false;
    if (const Node* const reset = maker_of(sum->input(1), "Mul")) {
      // n = tanh(x + r * (h' + b))
      if (t > 0 && !is_linear) return false;
      is_linear = true;
      const Value* of_state = reset->input(1);
      const Node* const with_bias = t == 0 ? nullptr : maker_of(of_state, "Add");
      if (t > 0 && (with_bias == nullptr || with_bias->input(0) != state_parts->output(1)))
        return false;
      Value* const added = t == 0 ? reset->input(1) : with_bias->input(1);
      if (!added->is_constant()) return false;
      if (t == 0) state_bias = added;
      return reset->input(0) == r && has_same_values(*added, *state_bias);
    }
    // n = tanh(x + W (r * h'))
    const Node* const product = maker_of(sum->input(1), "MatMul");
    const Node* const reset = product == nullptr ? nullptr : maker_of(product->input(0), "Mul");
    return t > 0 && !is_linear && reset != nullptr && reset->input(0) == r &&
           reset->input(1) == kept && is_candidate_weight(*product->input(1));
  }

  static bool has_same_values(const Value& a, const Value& b) {
    return &a == &b || (a.shape() == b.shape() && a.type() == b.type() &&
                        std::ranges::equal(a.values().bytes(), b.values().bytes()));
  }

  // Whether the weights are the columns of the candidate in state_weight.
  bool is_candidate_weight(const Value& weights) const {
    if (!weights.is_constant() || weights.shape() != Shape{units_, units_} ||
        state_weight->shape() != Shape{units_, 3 * units_})
      return false;
    const auto width = static_cast<size_t>(units_);
    if (known_candidate_ == &weights) return true;
    const std::vector<double> own = weights.values().doubles();
    const std::vector<double> all = state_weight->values().doubles();
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] != all[i / width * 3 * width + 2 * width + i % width]) return false;
    }
    known_candidate_ = &weights;
    return true;
  }

  const std::vector<Value*>& states_;  // h of each step
  int64_t units_;
  const Value* cell_ = nullptr;                     // c of the step before
  mutable const Value* known_candidate_ = nullptr;  // that was compared before
};

}  // namespace

bool find_steps(Graph& graph, Node& node) {
  if (!node.is("Concat") || node.inputs.size() < 2 || node.output()->shape().rank() != 3)
    return false;
  const Call call = node.call();
  if (call.canonical(call.need_int("axis"), 3) != 0) return false;
  Steps lstm(node), gru(node);
  const bool is_lstm = lstm.are_lstm();
  if (!is_lstm && !gru.are_gru()) return false;
  const Steps& steps = is_lstm ? lstm : gru;
  std::vector<Value*> inputs = {steps.x, steps.cont,
                                &transposed_constant(graph, *steps.input_weight), steps.bias,
                                &transposed_constant(graph, *steps.state_weight)};
  NodeAttributes attributes = {int_attribute("num_output", node.output()->shape()[-1])};
  if (!is_lstm && steps.is_linear) inputs.push_back(steps.state_bias);
  if (!is_lstm && !steps.is_linear) attributes.push_back(int_attribute("linear_before_reset", 0));
  graph.substitute_layer(node, is_lstm ? "LSTM" : "GRU", inputs, std::move(attributes)).bottoms = 2;
  return true;
}

}  // namespace crema::onnx
