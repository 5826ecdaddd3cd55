// LSTM, GRU and RNN, with all of their forms: directions, peepholes, activations, lengths of
// sequences. The layers LSTM, GRU and RNN compute what they can; the rest is computed here.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

struct RecurrentShape {
  int64_t length = 0;
  int64_t batch = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t directions = 1;
  int64_t gates = 1;
  bool batch_first = false;

  Shape output() const {
    return batch_first ? Shape{batch, length, directions, hidden}
                       : Shape{length, directions, batch, hidden};
  }
  Shape state() const {
    return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  }
};

// Inputs of all three: X, W, R, B, sequence_lens, initial_h; of LSTM also initial_c and P.

RecurrentShape recurrent_shape(const Call& call) {
  need_rank(call, 0, "X", 3, 3);
  need_rank(call, 1, "W", 3, 3);
  need_rank(call, 2, "R", 3, 3);
  RecurrentShape shape;
  shape.batch_first = call.get_int("layout", 0) != 0;
  const Shape& x = call.shape(0);
  shape.length = x[shape.batch_first ? 1 : 0];
  shape.batch = x[shape.batch_first ? 0 : 1];
  shape.input = x[2];
  shape.hidden = call.shape(2)[2];
  if (call.get_int("hidden_size", shape.hidden) != shape.hidden)
    call.fail("hidden_size ", call.get_int("hidden_size", 0), " differs from that of R, ",
              call.shape(2).str());
  shape.gates = call.op() == "LSTM" ? 4 : (call.op() == "GRU" ? 3 : 1);
  const std::string direction = call.get_string("direction", "forward");
  if (direction == "bidirectional")
    shape.directions = 2;
  else if (direction != "forward" && direction != "reverse")
    call.fail("direction '", direction, "'; it has to be forward, reverse or bidirectional");
  const int64_t rows = shape.gates * shape.hidden;
  need_within(call, "the number of rows of R", rows, 1);
  need_shape(call, 1, "W", {shape.directions, rows, shape.input});
  need_shape(call, 2, "R", {shape.directions, rows, shape.hidden});
  if (call.has(3)) need_shape(call, 3, "B", {shape.directions, 2 * rows});
  if (call.has(4)) need_shape(call, 4, "sequence_lens", {shape.batch});
  if (call.has(5)) need_shape(call, 5, "initial_h", shape.state());
  if (call.has(6)) need_shape(call, 6, "initial_c", shape.state());
  if (call.has(7)) need_shape(call, 7, "P", {shape.directions, 3 * shape.hidden});
  return shape;
}

void infer_recurrent(Call& call) {
  const RecurrentShape shape = recurrent_shape(call);
  checked_count(call, shape.output());
  checked_count(call, shape.state());
  call.give(0, call.type(0), shape.output());
  call.give(1, call.type(0), shape.state());
  call.give(2, call.type(0), shape.state());
}

struct GateActivation {
  double (*function)(double x, double alpha, double beta) = nullptr;
  double alpha = 0;
  double beta = 0;

  double operator()(double x) const { return function(x, alpha, beta); }
};

struct KnownActivation {
  std::string_view name;  // in lower case
  double (*function)(double x, double alpha, double beta);
  int parameters = 0;  // 1: alpha; 2: beta too
  double alpha = 0;
  double beta = 0;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

constexpr KnownActivation kActivations[] = {
    {"relu", [](double x, double, double) { return std::max(x, 0.0); }},
    {"tanh", [](double x, double, double) { return std::tanh(x); }},
    {"sigmoid", [](double x, double, double) { return logistic(x); }},
    {"softsign", [](double x, double, double) { return x / (1 + std::abs(x)); }},
    {"softplus", [](double x, double,
                    double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
    {"affine", [](double x, double a, double b) { return a * x + b; }, 2, 1.0, 0.0},
    {"scaledtanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 2, 1.0, 1.0},
    {"hardsigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, 2,
     0.2, 0.5},
    {"leakyrelu", [](double x, double a, double) { return x >= 0 ? x : a * x; }, 1, 0.01},
    {"thresholdedrelu", [](double x, double a, double) { return x > a ? x : 0; }, 1, 1.0},
    {"elu", [](double x, double a, double) { return x >= 0 ? x : a * std::expm1(x); }, 1, 1.0},
};

/// Those of all directions, one behind the other.
std::vector<GateActivation> gate_activations(const Call& call, int64_t directions) {
  std::vector<std::string> names = call.get_strings("activations");
  std::vector<std::string> of_one{"tanh"};
  if (call.op() == "LSTM") of_one = {"sigmoid", "tanh", "tanh"};
  if (call.op() == "GRU") of_one = {"sigmoid", "tanh"};
  const size_t count = of_one.size() * static_cast<size_t>(directions);
  // RNN's default is a list for two directions.
  if (call.op() == "RNN" && names.size() == 2 && directions == 1) names.pop_back();
  if (names.empty())
    for (int64_t d = 0; d < directions; ++d)
      names.insert(names.end(), of_one.begin(), of_one.end());
  if (names.size() != count)
    call.fail("activations has ", names.size(), " names; it needs ", count);
  const std::vector<double> alphas = call.get_floats("activation_alpha");
  const std::vector<double> betas = call.get_floats("activation_beta");
  size_t alpha = 0;
  size_t beta = 0;
  std::vector<GateActivation> result;
  for (const std::string& name : names) {
    std::string lower = name;
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const KnownActivation& a) { return a.name == lower; });
    if (known == std::end(kActivations)) call.fail("activation '", name, "' is not known");
    GateActivation activation{known->function, known->alpha, known->beta};
    // The values are taken in the order of the functions that have them.
    if (known->parameters > 0 && alpha < alphas.size()) activation.alpha = alphas[alpha++];
    if (known->parameters > 1 && beta < betas.size()) activation.beta = betas[beta++];
    result.push_back(activation);
  }
  return result;
}

/// What the cells of one direction compute with.
struct Direction {
  const double* w = nullptr;   // (gates * hidden, input)
  const double* r = nullptr;   // (gates * hidden, hidden)
  std::vector<double> w_bias;  // (gates * hidden)
  std::vector<double> r_bias;
  std::vector<double> peephole;  // (3 * hidden): input, output, forget
  std::span<const GateActivation> activations;
  double clip = std::numeric_limits<double>::infinity();
  int64_t hidden = 0;
  int64_t input = 0;

  double clipped(double x) const { return std::clamp(x, -clip, clip); }
  double of_input(int64_t row, const double* x) const {
    double sum = w_bias[static_cast<size_t>(row)];
    for (int64_t i = 0; i < input; ++i) sum += w[row * input + i] * x[i];
    return sum;
  }
  double of_state(int64_t row, const double* h) const {
    double sum = r_bias[static_cast<size_t>(row)];
    for (int64_t i = 0; i < hidden; ++i) sum += r[row * hidden + i] * h[i];
    return sum;
  }
};

void step_rnn(const Direction& d, const double* x, std::vector<double>& h) {
  std::vector<double> next(h.size());
  for (int64_t k = 0; k < d.hidden; ++k)
    next[static_cast<size_t>(k)] =
        d.activations[0](d.clipped(d.of_input(k, x) + d.of_state(k, h.data())));
  h = std::move(next);
}

/// Gates: update, reset, hidden.
void step_gru(const Direction& d, const double* x, bool linear_before_reset,
              std::vector<double>& h) {
  const auto n = static_cast<size_t>(d.hidden);
  std::vector<double> update(n);
  std::vector<double> reset(n);
  std::vector<double> kept(n);  // of the state
  for (size_t k = 0; k < n; ++k) {
    const auto row = static_cast<int64_t>(k);
    update[k] = d.activations[0](d.clipped(d.of_input(row, x) + d.of_state(row, h.data())));
    const int64_t reset_row = d.hidden + row;
    reset[k] =
        d.activations[0](d.clipped(d.of_input(reset_row, x) + d.of_state(reset_row, h.data())));
    kept[k] = reset[k] * h[k];
  }
  std::vector<double> next(n);
  for (size_t k = 0; k < n; ++k) {
    const int64_t row = 2 * d.hidden + static_cast<int64_t>(k);
    const double of_state =
        linear_before_reset ? reset[k] * d.of_state(row, h.data()) : d.of_state(row, kept.data());
    const double candidate = d.activations[1](d.clipped(d.of_input(row, x) + of_state));
    next[k] = (1 - update[k]) * candidate + update[k] * h[k];
  }
  h = std::move(next);
}

/// Gates: input, output, forget, cell.
void step_lstm(const Direction& d, const double* x, bool couples, std::vector<double>& h,
               std::vector<double>& c) {
  const auto n = static_cast<size_t>(d.hidden);
  std::vector<double> next(n);
  for (size_t k = 0; k < n; ++k) {
    const auto gate = [&](int64_t number) {
      const int64_t row = number * d.hidden + static_cast<int64_t>(k);
      return d.of_input(row, x) + d.of_state(row, h.data());
    };
    const double in = d.activations[0](d.clipped(gate(0) + d.peephole[k] * c[k]));
    const double forget =
        couples ? 1 - in : d.activations[0](d.clipped(gate(2) + d.peephole[2 * n + k] * c[k]));
    const double cell = d.activations[1](d.clipped(gate(3)));
    c[k] = forget * c[k] + in * cell;
    const double out = d.activations[0](d.clipped(gate(1) + d.peephole[n + k] * c[k]));
    next[k] = out * d.activations[2](c[k]);
  }
  h = std::move(next);
}

std::vector<double> part(const std::vector<double>& values, int64_t start, int64_t size) {
  return {values.begin() + start, values.begin() + start + size};
}

std::vector<int64_t> sequence_lengths(const Call& call, const RecurrentShape& s) {
  if (!call.has(4)) return std::vector<int64_t>(static_cast<size_t>(s.batch), s.length);
  std::vector<int64_t> lengths = integers(call, 4, "sequence_lens");
  for (const int64_t length : lengths)
    need_within(call, "a length of a sequence", length, 0, s.length);
  return lengths;
}

std::vector<double> initial_state(const Call& call, size_t i, const RecurrentShape& s) {
  if (call.has(i)) return numbers(call, i, "an initial state");
  return std::vector<double>(checked_count(call, s.state()), 0);
}

void evaluate_recurrent(Call& call) {
  const RecurrentShape s = recurrent_shape(call);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<double> w = numbers(call, 1, "W");
  const std::vector<double> r = numbers(call, 2, "R");
  const int64_t rows = s.gates * s.hidden;
  std::vector<double> bias(static_cast<size_t>(2 * rows * s.directions), 0);
  if (call.has(3)) bias = numbers(call, 3, "B");
  std::vector<double> peepholes(static_cast<size_t>(3 * s.hidden * s.directions), 0);
  if (call.has(7)) peepholes = numbers(call, 7, "P");
  const std::vector<GateActivation> activations = gate_activations(call, s.directions);
  const std::vector<int64_t> lengths = sequence_lengths(call, s);
  const bool linear_before_reset = call.get_int("linear_before_reset", 0) != 0;
  const bool couples = call.get_int("input_forget", 0) != 0;
  const bool reverses = call.get_string("direction", "forward") == "reverse";
  std::vector<double> y(checked_count(call, s.output()), 0);
  std::vector<double> hidden = initial_state(call, 5, s);
  std::vector<double> cells = initial_state(call, 6, s);
  const auto of_direction = static_cast<int64_t>(activations.size()) / s.directions;
  for (int64_t d = 0; d < s.directions; ++d) {
    Direction direction{.w = w.data() + d * rows * s.input,
                        .r = r.data() + d * rows * s.hidden,
                        .w_bias = part(bias, 2 * d * rows, rows),
                        .r_bias = part(bias, (2 * d + 1) * rows, rows),
                        .peephole = part(peepholes, 3 * d * s.hidden, 3 * s.hidden),
                        .activations = std::span(activations)
                                           .subspan(static_cast<size_t>(d * of_direction),
                                                    static_cast<size_t>(of_direction)),
                        .hidden = s.hidden,
                        .input = s.input};
    const double clip = call.get_float("clip", 0);
    if (clip > 0) direction.clip = clip;
    for (int64_t b = 0; b < s.batch; ++b) {
      const int64_t state = (s.batch_first ? b * s.directions + d : d * s.batch + b) * s.hidden;
      std::vector<double> h = part(hidden, state, s.hidden);
      std::vector<double> c = part(cells, state, s.hidden);
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t step = 0; step < length; ++step) {
        const int64_t t = reverses || d == 1 ? length - 1 - step : step;
        const double* input =
            x.data() + (s.batch_first ? b * s.length + t : t * s.batch + b) * s.input;
        if (s.gates == 1)
          step_rnn(direction, input, h);
        else if (s.gates == 3)
          step_gru(direction, input, linear_before_reset, h);
        else
          step_lstm(direction, input, couples, h, c);
        const int64_t place = s.batch_first ? (b * s.length + t) * s.directions + d
                                            : (t * s.directions + d) * s.batch + b;
        std::copy(h.begin(), h.end(), y.begin() + place * s.hidden);
      }
      std::copy(h.begin(), h.end(), hidden.begin() + state);
      std::copy(c.begin(), c.end(), cells.begin() + state);
    }
  }
  call.give(0, Array::of_doubles(call.type(0), s.output(), y));
  call.give(1, Array::of_doubles(call.type(0), s.state(), hidden));
  call.give(2, Array::of_doubles(call.type(0), s.state(), cells));
}

}  // namespace

void add_recurrent_operators(OperatorTable& table) {
  table.add({.name = "LSTM",
             .min_inputs = 3,
             .max_inputs = 8,
             .max_outputs = 3,
             .infer = infer_recurrent,
             .evaluate = evaluate_recurrent});
  for (const char* name : {"GRU", "RNN"})
    table.add({.name = name,
               .min_inputs = 3,
               .max_inputs = 6,
               .max_outputs = 2,
               .infer = infer_recurrent,
               .evaluate = evaluate_recurrent});
}

}  // namespace crema::onnx
