// Recurrent layers. Where no sequence begins inside of the steps, they are the operators of ONNX
// with gates in their order; else the steps are written one by one, since these operators know no
// `cont`.
#include <algorithm>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

constexpr int64_t kMostSteps = 2048;  // that are written one by one

enum class Cell { lstm, gru, rnn };

/// The parameters of one direction.
struct Direction {
  Array input, bias, state;                  // (gates * H, inputs), (gates * H), (gates * H, H)
  std::optional<Array> static_input;         // (gates * H, static inputs)
  std::optional<Array> state_bias;           // (H): GRU, linear before reset
  std::optional<Array> output, output_bias;  // RNN: (H, H), (H)
};

class Recurrent {
 public:
  Recurrent(const ExportedLayer& layer, GraphBuilder& graph, Cell cell)
      : layer_(layer), graph_(graph), cell_(cell) {
    const RecurrentParameter& s = layer.param().recurrent_param();
    units_ = s.num_output();
    gates_ = cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1;
    linear_ = s.linear_before_reset();
    exposed_ = s.expose_hidden();
    const size_t states = !exposed_ ? 0 : cell == Cell::lstm ? 2 : 1;
    has_static_ = layer.bottoms() == 3 + states;
    first_state_ = has_static_ ? 3 : 2;
    steps_ = layer.bottom()[0];
    sequences_ = layer.bottom()[1];
    size_t next = 0;
    const size_t directions = s.bidirectional() ? 2 : 1;
    for (size_t d = 0; d < directions; ++d) {
      Direction one;
      one.input = layer.weight(next++);
      one.bias = layer.weight(next++);
      if (has_static_) one.static_input = layer.weight(next++);
      one.state = layer.weight(next++);
      if (cell == Cell::gru && linear_) one.state_bias = layer.weight(next++);
      if (cell == Cell::rnn) {
        one.output = layer.weight(next++);
        one.output_bias = layer.weight(next++);
      }
      directions_.push_back(std::move(one));
    }
    if (next != layer.weights())
      throw Error("has ", layer.weights(), " parameters, where ", next, " are expected");
  }

  void write() {
    if (goes_on()) return write_operator();
    write_steps();
  }

 private:
  /// Whether no sequence begins behind step 0: then all that `cont` says is whether the first
  /// states count.
  bool goes_on() const {
    const Array* cont = layer_.known(1);
    if (cont == nullptr) return false;
    const std::vector<double> values = cont->doubles();
    return std::all_of(values.begin() + static_cast<ptrdiff_t>(sequences_), values.end(),
                       [](double value) { return value == 1; });
  }

  /// The input (T, N, D), with the static one behind it in each step.
  std::string inputs() {
    const Shape& shape = layer_.bottom();
    std::string x = layer_.input();
    if (shape.rank() != 3)
      x = graph_.reshape(
          x, std::vector<int64_t>{graph_.open_batch() ? -1 : steps_, sequences_, shape.count(2)});
    if (!has_static_) return x;
    graph_.need_fixed_batch("its static input is repeated for each step");
    const Shape& own = layer_.bottom(2);
    std::string each =
        graph_.reshape(layer_.input(2), std::vector<int64_t>{1, own[0], own.count(1)});
    each = graph_.add("Expand", {each, graph_.ints({steps_, 1, 1})});
    return graph_.concat({x, each}, 2);
  }

  /// The weights of the input and the static input, side by side: (gates * H, D + S), rows by gates
  /// in the order that is given.
  std::vector<double> input_rows(const Direction& one, const std::vector<size_t>& order) const {
    const std::vector<double> own = one.input.doubles();
    const std::vector<double> more =
        one.static_input ? one.static_input->doubles() : std::vector<double>();
    const auto rows = static_cast<size_t>(units_);
    const size_t width = own.size() / (order.size() * rows);
    const size_t more_width = more.size() / (order.size() * rows);
    std::vector<double> result;
    for (const size_t gate : order) {
      for (size_t r = gate * rows; r < (gate + 1) * rows; ++r) {
        result.insert(result.end(), own.begin() + static_cast<ptrdiff_t>(r * width),
                      own.begin() + static_cast<ptrdiff_t>((r + 1) * width));
        result.insert(result.end(), more.begin() + static_cast<ptrdiff_t>(r * more_width),
                      more.begin() + static_cast<ptrdiff_t>((r + 1) * more_width));
      }
    }
    return result;
  }

  static std::vector<double> in_order(const Array& values, const std::vector<size_t>& order) {
    const std::vector<double> from = values.doubles();
    const size_t part = from.size() / order.size();
    std::vector<double> result;
    for (const size_t gate : order) {
      result.insert(result.end(), from.begin() + static_cast<ptrdiff_t>(gate * part),
                    from.begin() + static_cast<ptrdiff_t>((gate + 1) * part));
    }
    return result;
  }

  /// The gates of ONNX, by their numbers here: LSTM i, f, o, g to i, o, f, c; GRU r, z, n to z, r,
  /// h.
  std::vector<size_t> onnx_order() const {
    if (cell_ == Cell::lstm) return {0, 2, 1, 3};
    if (cell_ == Cell::gru) return {1, 0, 2};
    return {0};
  }

  void write_operator() {
    const auto directions = static_cast<int64_t>(directions_.size());
    const std::vector<size_t> order = onnx_order();
    std::vector<double> input, state, bias;
    for (const Direction& one : directions_) {
      const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(input, input_rows(one, order));
      append(state, in_order(one.state, order));
      append(bias, in_order(one.bias, order));
      std::vector<double> of_state(static_cast<size_t>(gates_ * units_), 0.0);
      if (one.state_bias) {
        const std::vector<double> values = one.state_bias->doubles();
        std::copy(values.begin(), values.end(), of_state.end() - units_);
      }
      append(bias, of_state);
    }
    const int64_t rows = gates_ * units_;
    const auto width = static_cast<int64_t>(input.size()) / (directions * rows);
    Names names{inputs(), graph_.floats(Shape{directions, rows, width}, input, "W"),
                graph_.floats(Shape{directions, rows, units_}, state, "R"),
                graph_.floats(Shape{directions, 2 * rows}, bias, "B")};
    if (exposed_) {
      names.emplace_back();  // the lengths of sequences: all steps
      names.push_back(first_state(0));
      if (cell_ == Cell::lstm) names.push_back(first_state(1));
    }
    Attributes attributes{
        {"hidden_size", units_},
        {"direction", std::string(directions == 2 ? "bidirectional" : "forward")}};
    if (cell_ == Cell::gru) attributes.emplace_back("linear_before_reset", linear_ ? 1 : 0);
    Names outputs{""};
    if (exposed_) outputs.push_back(layer_.output(1));
    if (exposed_ && cell_ == Cell::lstm) outputs.push_back(layer_.output(2));
    const char* op = cell_ == Cell::lstm ? "LSTM" : cell_ == Cell::gru ? "GRU" : "RNN";
    const std::string all = graph_.add_many(op, names, outputs, attributes)[0];  // (T, dirs, N, H)
    Names states;
    if (directions == 1) {
      states = {graph_.squeeze(all, {1})};
    } else if (cell_ == Cell::rnn) {
      for (const std::string& half : graph_.split(all, 1, {1, 1}))
        states.push_back(graph_.squeeze(half, {1}));
    } else {
      const std::string order_of_top = graph_.transpose(all, {0, 2, 1, 3});
      states = {graph_.reshape(order_of_top, std::vector<int64_t>{0, 0, 2 * units_})};
    }
    write_top(states);
  }

  /// The state of the first step that a bottom gives, (directions, N, H), times the indicators of
  /// step 0 for the forward direction.
  std::string first_state(size_t i) {
    const std::string& given = layer_.input(first_state_ + i);
    const std::vector<double> cont = layer_.known(1)->doubles();
    std::vector<double> factors(cont.begin(), cont.begin() + static_cast<ptrdiff_t>(sequences_));
    if (std::ranges::all_of(factors, [](double factor) { return factor == 1; })) return given;
    factors.resize(factors.size() * directions_.size(), 1.0);
    const Shape shape{static_cast<int64_t>(directions_.size()), sequences_, 1};
    return graph_.add("Mul", {given, graph_.floats(shape, factors)});
  }

  /// The outputs of all steps, of each direction (T, N, H), as the top.
  void write_top(Names states) {
    if (cell_ == Cell::rnn) {
      for (size_t d = 0; d < states.size(); ++d) {
        const Direction& one = directions_[d];
        const std::string product =
            graph_.add("MatMul", {states[d], turned(*one.output, "output_weight")});
        const std::string sum =
            graph_.add("Add", {product, graph_.constant(*one.output_bias, "output_bias")});
        states[d] = graph_.add("Tanh", {sum});
      }
    }
    finish(layer_, graph_, states.size() == 1 ? states[0] : graph_.concat(states, 2));
  }

  /// A constant with rows and columns exchanged, for products from the right.
  std::string turned(const Array& matrix, std::string_view hint) {
    const int64_t rows = matrix.shape()[0], columns = matrix.count() / std::max<int64_t>(rows, 1);
    return turned(matrix.doubles(), rows, columns, hint);
  }
  std::string turned(const std::vector<double>& values, int64_t rows, int64_t columns,
                     std::string_view hint) {
    std::vector<double> result(values.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c)
        result[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * columns + c)];
    }
    return graph_.floats(Shape{columns, rows}, result, hint);
  }

  void write_steps() {
    graph_.need_fixed_batch("sequences begin inside of its steps, which are written one by one");
    if (steps_ > kMostSteps)
      throw Error("has ", steps_,
                  " steps, in which sequences may begin anywhere (`cont` is not "
                  "known), so that each would be nodes of its own; at most ",
                  kMostSteps, " are written. Give it a ContinuationIndicator, or fewer steps");
    const std::string x = inputs();
    const std::vector<int64_t> ones(static_cast<size_t>(steps_), 1);
    const Names cont = steps_of(graph_.unsqueeze(layer_.input(1), {2}), ones);
    Names outputs, last_h, last_c;
    for (size_t d = 0; d < directions_.size(); ++d) {
      const Direction& one = directions_[d];
      std::vector<size_t> order(static_cast<size_t>(gates_));
      for (size_t gate = 0; gate < order.size(); ++gate) order[gate] = gate;
      const std::vector<double> rows = input_rows(one, order);
      const int64_t width = static_cast<int64_t>(rows.size()) / (gates_ * units_);
      const std::string product =
          graph_.add("MatMul", {x, turned(rows, gates_ * units_, width, "input_weight")});
      const Names sums =
          steps_of(graph_.add("Add", {product, graph_.constant(one.bias, "bias")}), ones);
      const std::string state_weight = turned(one.state, "state_weight");
      State state;
      if (exposed_) {
        state.h = of_direction(layer_.input(first_state_), d);
        if (cell_ == Cell::lstm) state.c = of_direction(layer_.input(first_state_ + 1), d);
      }
      Names all(static_cast<size_t>(steps_));
      for (int64_t i = 0; i < steps_; ++i) {
        const auto t = static_cast<size_t>(d == 0 ? i : steps_ - 1 - i);
        // The reverse direction begins anew at each step behind which a sequence begins.
        const std::string factor = d == 0 ? cont[t] : i == 0 ? std::string() : cont[t + 1];
        state = step(one, state, sums[t], state_weight, factor);
        all[t] = state.h;
      }
      outputs.push_back(all.size() == 1 ? all[0] : graph_.concat(all, 0));
      last_h.push_back(state.h);
      last_c.push_back(state.c);
    }
    // In front of the top, whose name the state of an only step takes. Concat also of one
    // direction: the state may be an output of the net by another name.
    if (exposed_) graph_.concat(last_h, 0, layer_.output(1));
    if (exposed_ && cell_ == Cell::lstm) graph_.concat(last_c, 0, layer_.output(2));
    write_top(outputs);
  }

  struct State {
    std::string h, c;  // (1, N, H); "": zeros
  };

  Names steps_of(const std::string& x, const std::vector<int64_t>& ones) {
    return ones.size() == 1 ? Names{x} : graph_.split(x, 0, ones);
  }

  std::string of_direction(const std::string& states, size_t d) {
    if (directions_.size() == 1) return states;
    const auto at = static_cast<int64_t>(d);
    return graph_.slice(states, {0}, {at}, {at + 1});
  }

  State step(const Direction& one, State before, const std::string& input,
             const std::string& state_weight, const std::string& factor) {
    if (!factor.empty()) {
      if (!before.h.empty()) before.h = graph_.add("Mul", {before.h, factor});
      if (!before.c.empty()) before.c = graph_.add("Mul", {before.c, factor});
    }
    switch (cell_) {
      case Cell::lstm:
        return lstm_step(before, with_state(before, input, state_weight));
      case Cell::gru:
        return gru_step(one, before, input, state_weight);
      case Cell::rnn:
        break;
    }
    return {graph_.add("Tanh", {with_state(before, input, state_weight)}), ""};
  }

  std::string with_state(const State& before, const std::string& input,
                         const std::string& state_weight) {
    if (before.h.empty()) return input;
    return graph_.add("Add", {input, graph_.add("MatMul", {before.h, state_weight})});
  }

  State lstm_step(const State& before, const std::string& sums) {
    const Names parts = graph_.split(sums, 2, {3 * units_, units_});
    const Names gates =
        graph_.split(graph_.add("Sigmoid", {parts[0]}), 2, {units_, units_, units_});
    State now;
    now.c = graph_.add("Mul", {gates[0], graph_.add("Tanh", {parts[1]})});
    if (!before.c.empty())
      now.c = graph_.add("Add", {graph_.add("Mul", {gates[1], before.c}), now.c});
    now.h = graph_.add("Mul", {gates[2], graph_.add("Tanh", {now.c})});
    return now;
  }

  State gru_step(const Direction& one, const State& before, const std::string& input,
                 const std::string& state_weight) {
    const Names own = graph_.split(input, 2, {2 * units_, units_});  // of r and z; of n
    std::string gate_sums = own[0], of_state;
    if (!before.h.empty()) {
      const std::string product = graph_.add("MatMul", {before.h, state_weight});
      const Names parts = graph_.split(product, 2, {2 * units_, units_});
      gate_sums = graph_.add("Add", {gate_sums, parts[0]});
      of_state = parts[1];
    }
    const Names gates = graph_.split(graph_.add("Sigmoid", {gate_sums}), 2, {units_, units_});
    const std::string &r = gates[0], &z = gates[1];
    std::string sum = own[1];
    if (linear_) {
      const std::string bias = graph_.constant(*one.state_bias);
      of_state = of_state.empty() ? bias : graph_.add("Add", {of_state, bias});
      sum = graph_.add("Add", {sum, graph_.add("Mul", {r, of_state})});
    } else if (!before.h.empty()) {
      const std::string reset = graph_.add("Mul", {r, before.h});
      const std::vector<double> rows = one.state.doubles();
      const std::vector<double> of_candidate(rows.end() - units_ * units_, rows.end());
      const std::string weight = turned(of_candidate, units_, units_, "candidate_weight");
      sum = graph_.add("Add", {sum, graph_.add("MatMul", {reset, weight})});
    }
    const std::string candidate = graph_.add("Tanh", {sum});
    const std::string rest = graph_.add("Sub", {graph_.number(1), z});
    std::string h = graph_.add("Mul", {rest, candidate});
    if (!before.h.empty()) h = graph_.add("Add", {h, graph_.add("Mul", {z, before.h})});
    return {h, ""};
  }

  const ExportedLayer& layer_;
  GraphBuilder& graph_;
  Cell cell_;
  int64_t units_ = 0, gates_ = 1, steps_ = 0, sequences_ = 0;
  bool linear_ = true, exposed_ = false, has_static_ = false;
  size_t first_state_ = 2;
  std::vector<Direction> directions_;
};

template <Cell kCell>
void export_recurrent(const ExportedLayer& layer, GraphBuilder& graph) {
  Recurrent(layer, graph, kCell).write();
}

void export_lstm_unit(const ExportedLayer& layer, GraphBuilder& graph) {
  const int64_t units = layer.bottom()[2];
  const std::string factor = graph.unsqueeze(layer.input(2), {2});
  const std::string before = graph.add("Mul", {layer.input(0), factor});
  const Names parts = graph.split(layer.input(1), 2, {3 * units, units});
  const Names gates = graph.split(graph.add("Sigmoid", {parts[0]}), 2, {units, units, units});
  const std::string kept = graph.add("Mul", {gates[1], before});
  const std::string added = graph.add("Mul", {gates[0], graph.add("Tanh", {parts[1]})});
  const std::string cell = graph.add("Add", {kept, added}, {}, layer.output(0));
  graph.add("Mul", {gates[2], graph.add("Tanh", {cell})}, {}, layer.output(1));
}

}  // namespace

void add_recurrent_exporters(ExporterTable& table) {
  table.add("GRU", export_recurrent<Cell::gru>);
  table.add("LSTM", export_recurrent<Cell::lstm>);
  table.add("LSTMUnit", export_lstm_unit);
  table.add("RNN", export_recurrent<Cell::rnn>);
}

}  // namespace crema::onnx
