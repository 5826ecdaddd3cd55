// Signals: DFT, STFT, windows, and the weights of mel bins.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

constexpr double kPi = std::numbers::pi;

/// Cosines and sines of all multiples of 1 / length of a turn.
class Turns {
 public:
  explicit Turns(int64_t length) : cosines_(static_cast<size_t>(length)), sines_(cosines_) {
    for (size_t i = 0; i < cosines_.size(); ++i) {
      const double angle = 2 * kPi * static_cast<double>(i) / static_cast<double>(length);
      cosines_[i] = std::cos(angle);
      sines_[i] = std::sin(angle);
    }
  }
  double cosine(int64_t i) const { return cosines_[static_cast<size_t>(i)]; }
  double sine(int64_t i) const { return sines_[static_cast<size_t>(i)]; }
  int64_t length() const { return static_cast<int64_t>(cosines_.size()); }

 private:
  std::vector<double> cosines_;
  std::vector<double> sines_;
};

struct Complex {
  double real = 0;
  double imaginary = 0;
};

/// Element k of the transform of `signal`, which is as long as `turns` or shorter: zeros follow.
Complex transformed(std::span<const Complex> signal, const Turns& turns, int64_t k, bool inverse) {
  Complex sum;
  int64_t turn = 0;
  for (const Complex& value : signal) {
    const double cosine = turns.cosine(turn);
    const double sine = inverse ? turns.sine(turn) : -turns.sine(turn);
    sum.real += value.real * cosine - value.imaginary * sine;
    sum.imaginary += value.real * sine + value.imaginary * cosine;
    turn = (turn + k) % turns.length();
  }
  return sum;
}

constexpr int64_t kMaxTransform = int64_t{1} << 24;

struct DftShape {
  int axis = 0;
  int64_t length = 1;  // of the transform
  bool inverse = false;
  bool is_half = false;  // onesided
  Shape output;
};

DftShape dft_shape(const Call& call) {
  need_rank(call, 0, "input", 2, 8);
  const Shape& x = call.shape(0);
  if (x[-1] != 1 && x[-1] != 2)
    call.fail("input ", x.str(), " needs 1 (real) or 2 (complex) as its last axis");
  DftShape shape;
  int64_t axis = call.get_int("axis", 1);
  if (call.opset() >= 20) axis = call.has(2) ? integer(call, 2, "axis") : -2;
  shape.axis = call.canonical(axis, x.rank());
  if (shape.axis == x.rank() - 1) call.fail("the last axis is that of real and imaginary part");
  shape.inverse = call.get_int("inverse", 0) != 0;
  shape.is_half = call.get_int("onesided", 0) != 0;
  const bool gives_real = shape.inverse && shape.is_half;
  shape.length = gives_real ? 2 * (x[shape.axis] - 1) : x[shape.axis];
  if (call.has(1)) shape.length = integer(call, 1, "dft_length");
  need_within(call, "dft_length", shape.length, 1, kMaxTransform);
  std::vector<int64_t> dims = x.dims();
  dims[static_cast<size_t>(shape.axis)] =
      shape.is_half && !shape.inverse ? shape.length / 2 + 1 : shape.length;
  dims.back() = gives_real ? 1 : 2;
  shape.output = Shape(dims);
  checked_count(call, shape.output);
  return shape;
}

void infer_dft(Call& call) { call.give(0, call.type(0), dft_shape(call).output); }

/// The whole spectrum of a real signal from its first half.
std::vector<Complex> whole_spectrum(std::vector<Complex> half, int64_t length) {
  half.resize(static_cast<size_t>(length / 2 + 1));
  half.front().imaginary = 0;
  if (length % 2 == 0) half.back().imaginary = 0;
  for (int64_t k = length / 2 + 1; k < length; ++k) {
    const Complex mirrored = half[static_cast<size_t>(length - k)];
    half.push_back({mirrored.real, -mirrored.imaginary});
  }
  return half;
}

void evaluate_dft(Call& call) {
  const DftShape shape = dft_shape(call);
  const std::vector<double> x = numbers(call, 0, "input");
  const Shape& from = call.shape(0);
  const int64_t parts = from[-1];
  const int64_t result_parts = shape.output[-1];
  const AxisView view = view_along(from, shape.axis);
  const int64_t lines = view.inner / parts;
  const int64_t out = shape.output[shape.axis];
  const Turns turns(shape.length);
  const double factor = shape.inverse ? 1 / static_cast<double>(shape.length) : 1;
  std::vector<double> y(checked_count(call, shape.output), 0);
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < lines; ++i) {
      std::vector<Complex> signal;
      for (int64_t k = 0; k < std::min(view.size, shape.length); ++k) {
        const double* value = x.data() + ((o * view.size + k) * lines + i) * parts;
        signal.push_back({value[0], parts == 2 ? value[1] : 0});
      }
      if (shape.inverse && shape.is_half) signal = whole_spectrum(std::move(signal), shape.length);
      for (int64_t k = 0; k < out; ++k) {
        const Complex value = transformed(signal, turns, k, shape.inverse);
        double* target = y.data() + ((o * out + k) * lines + i) * result_parts;
        target[0] = value.real * factor;
        if (result_parts == 2) target[1] = value.imaginary * factor;
      }
    }
  }
  call.give(0, Array::of_doubles(call.type(0), shape.output, y));
}

// STFT: inputs signal (batch, length, 1 or 2), frame_step, window, frame_length.

struct StftShape {
  int64_t step = 1;
  int64_t frame = 1;
  int64_t parts = 1;
  Shape output;
};

StftShape stft_shape(const Call& call) {
  need_rank(call, 0, "signal", 2, 3);
  const Shape& x = call.shape(0);
  StftShape shape;
  shape.parts = x.rank() == 3 ? x[2] : 1;
  if (shape.parts != 1 && shape.parts != 2)
    call.fail("signal ", x.str(), " needs 1 (real) or 2 (complex) as its last axis");
  shape.step = integer(call, 1, "frame_step");
  need_within(call, "frame_step", shape.step, 1);
  shape.frame = x[1];
  if (call.has(2)) {
    need_rank(call, 2, "window", 1, 1);
    shape.frame = call.shape(2)[0];
  }
  if (call.has(3)) shape.frame = integer(call, 3, "frame_length");
  need_within(call, "frame_length", shape.frame, 1, std::min(x[1], kMaxTransform));
  if (call.has(2)) need_shape(call, 2, "window", {shape.frame});
  const bool is_half = call.get_int("onesided", 1) != 0;
  shape.output = Shape{x[0], (x[1] - shape.frame) / shape.step + 1,
                       is_half ? shape.frame / 2 + 1 : shape.frame, 2};
  checked_count(call, shape.output);
  return shape;
}

void infer_stft(Call& call) { call.give(0, call.type(0), stft_shape(call).output); }

void evaluate_stft(Call& call) {
  const StftShape shape = stft_shape(call);
  const std::vector<double> x = numbers(call, 0, "signal");
  std::vector<double> window(static_cast<size_t>(shape.frame), 1);
  if (call.has(2)) window = numbers(call, 2, "window");
  const Turns turns(shape.frame);
  std::vector<double> y;
  y.reserve(checked_count(call, shape.output));
  std::vector<Complex> frame(window.size());
  for (int64_t n = 0; n < shape.output[0]; ++n) {
    for (int64_t f = 0; f < shape.output[1]; ++f) {
      const double* start = x.data() + (n * call.shape(0)[1] + f * shape.step) * shape.parts;
      for (size_t i = 0; i < frame.size(); ++i) {
        const double* value = start + static_cast<int64_t>(i) * shape.parts;
        frame[i] = {value[0] * window[i], shape.parts == 2 ? value[1] * window[i] : 0};
      }
      for (int64_t k = 0; k < shape.output[2]; ++k) {
        const Complex value = transformed(frame, turns, k, false);
        y.insert(y.end(), {value.real, value.imaginary});
      }
    }
  }
  call.give(0, Array::of_doubles(call.type(0), shape.output, y));
}

// Windows

ElementType output_datatype(const Call& call) {
  const int64_t type = call.get_int("output_datatype", TensorProto::FLOAT);
  if (type < 0 || type > TensorProto::BFLOAT16 || !is_supported(static_cast<ElementType>(type)) ||
      type == TensorProto::BOOL)
    call.fail("output_datatype ", type, " is not supported");
  return static_cast<ElementType>(type);
}

Shape signal_window_output(const Call& call) {
  const int64_t size = integer(call, 0, "size");
  need_within(call, "size", size, 0);
  return Shape{size};
}

void infer_signal_window(Call& call) {
  call.give(0, output_datatype(call), signal_window_output(call));
}

void evaluate_signal_window(Call& call) {
  const Shape shape = signal_window_output(call);
  const int64_t size = shape[0];
  const bool is_periodic = call.get_int("periodic", 1) != 0;
  const int64_t length = std::max<int64_t>(is_periodic ? size : size - 1, 1);
  // The terms of cos(0), cos(x) and cos(2 x).
  double terms[3] = {0.5, -0.5, 0};
  if (call.op() == "HammingWindow") {
    terms[0] = 25.0 / 46.0;
    terms[1] = -21.0 / 46.0;
  } else if (call.op() == "BlackmanWindow") {
    terms[0] = 0.42;
    terms[2] = 0.08;
  }
  std::vector<double> values(checked_count(call, shape));
  for (size_t i = 0; i < values.size(); ++i) {
    const double angle = 2 * kPi * static_cast<double>(i) / static_cast<double>(length);
    values[i] = terms[0] + terms[1] * std::cos(angle) + terms[2] * std::cos(2 * angle);
  }
  call.give(0, Array::of_doubles(output_datatype(call), shape, values));
}

// MelWeightMatrix: inputs num_mel_bins, dft_length, sample_rate, lower and upper edge in hertz.

Shape mel_output(const Call& call) {
  const int64_t bins = integer(call, 0, "num_mel_bins");
  const int64_t length = integer(call, 1, "dft_length");
  need_within(call, "num_mel_bins", bins, 1, kMaxTransform);
  need_within(call, "dft_length", length, 1, kMaxTransform);
  const Shape shape{length / 2 + 1, bins};
  checked_count(call, shape);
  return shape;
}

void infer_mel(Call& call) { call.give(0, output_datatype(call), mel_output(call)); }

/// The bins of the spectrum where the triangles begin, peak and end.
std::vector<int64_t> mel_edges(const Call& call, const Shape& shape) {
  const int64_t length = integer(call, 1, "dft_length");
  const int64_t rate = integer(call, 2, "sample_rate");
  need_within(call, "sample_rate", rate, 1);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(number(call, 3, "lower_edge_hertz"));
  const double high = mel(number(call, 4, "upper_edge_hertz"));
  const auto count = static_cast<double>(shape[1] + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < shape[1] + 2; ++i) {
    const double at = low + static_cast<double>(i) * (high - low) / count;
    const double hertz = 700 * (std::pow(10.0, at / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    // Also false for NaN.
    if (!(bin >= 0 && bin < static_cast<double>(shape[0])))
      call.fail("an edge of ", hertz, " hertz is in no bin of the ", shape[0], " of the spectrum");
    edges.push_back(static_cast<int64_t>(bin));
  }
  return edges;
}

void evaluate_mel(Call& call) {
  const Shape shape = mel_output(call);
  const std::vector<int64_t> edges = mel_edges(call, shape);
  std::vector<double> weights(checked_count(call, shape), 0);
  for (int64_t i = 0; i < shape[1]; ++i) {
    const int64_t low = edges[static_cast<size_t>(i)];
    const int64_t centre = edges[static_cast<size_t>(i) + 1];
    const int64_t high = edges[static_cast<size_t>(i) + 2];
    const auto at = [&](int64_t j) -> double& {
      return weights[static_cast<size_t>(j * shape[1] + i)];
    };
    if (centre == low) at(centre) = 1;
    for (int64_t j = low; j <= centre && centre > low; ++j)
      at(j) = static_cast<double>(j - low) / static_cast<double>(centre - low);
    for (int64_t j = centre; j < high; ++j)
      at(j) = static_cast<double>(high - j) / static_cast<double>(high - centre);
  }
  call.give(0, Array::of_doubles(output_datatype(call), shape, weights));
}

}  // namespace

void add_signal_operators(OperatorTable& table) {
  table.add({.name = "DFT", .max_inputs = 3, .infer = infer_dft, .evaluate = evaluate_dft});
  table.add({.name = "STFT",
             .min_inputs = 2,
             .max_inputs = 4,
             .infer = infer_stft,
             .evaluate = evaluate_stft});
  for (const char* name : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    table.add({.name = name, .infer = infer_signal_window, .evaluate = evaluate_signal_window});
  table.add({.name = "MelWeightMatrix",
             .min_inputs = 5,
             .max_inputs = 5,
             .infer = infer_mel,
             .evaluate = evaluate_mel});
}

}  // namespace crema::onnx
