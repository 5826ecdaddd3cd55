// Quantized values: to and from integers, and products of them. y = round(x / scale) + zero point,
// cut at the limits of the integer type.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"
#include "onnx/operators/convolve.hpp"
#include "onnx/operators/matrices.hpp"

namespace crema::onnx {
namespace {

/// Where the scale and zero point of an element lie.
struct ScaleLayout {
  bool is_one = true;      // one scale for all; else by place along an axis, in blocks
  bool has_inner = false;  // other scales for the lines that are not along the axis
  AxisView view;
  int64_t block = 1;

  size_t place(size_t element) const {
    if (is_one) return 0;
    const auto i = static_cast<int64_t>(element);
    const int64_t along = i / view.inner % view.size / block;
    if (!has_inner) return static_cast<size_t>(along);
    const int64_t blocks = (view.size + block - 1) / block;
    const int64_t outer = i / view.inner / view.size;
    return static_cast<size_t>((outer * blocks + along) * view.inner + i % view.inner);
  }
};

/// Error unless these inputs are quantized: integers.
void need_quantized(const Call& call, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs) {
    if (!is_integer(call.type(i)))
      call.fail("input ", i, " has values of ", type_name(call.type(i)),
                "; quantized values are integers of 8 to 64 bits");
  }
}

/// Error unless input i is of a type of floats.
void need_floats(const Call& call, size_t i, std::string_view what) {
  if (!is_float(call.type(i)))
    call.fail(what, " has values of ", type_name(call.type(i)), "; it has floats");
}

ScaleLayout scale_layout(const Call& call) {
  need_floats(call, 1, "the scale");
  const Shape& x = call.shape(0);
  const Shape& scale = call.shape(1);
  if (call.has(2)) need_shape(call, 2, "the zero point", scale);
  checked_count(call, x);
  if (scale.count() == 1 && scale.rank() <= 1) return {};
  ScaleLayout layout{.is_one = false};
  const int64_t block = call.get_int("block_size", 0);
  const int axis = call.canonical(call.get_int("axis", 1), x.rank());
  layout.view = view_along(x, axis);
  if (scale.rank() == 1 && block == 0) {
    if (scale[0] != x[axis])
      call.fail("the scale has ", scale[0], " values for the ", x[axis], " places of axis ", axis);
    return layout;
  }
  need_within(call, "block_size", block, 1);
  layout.block = block;
  layout.has_inner = true;
  bool fits = scale.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i)
    fits = scale[i] == (i == axis ? (x[i] + block - 1) / block : x[i]);
  if (!fits)
    call.fail("the scale ", scale.str(), " does not fit blocks of ", block, " along axis ", axis,
              " of ", x.str());
  return layout;
}

ElementType checked_type(const Call& call, int64_t type, std::string_view what) {
  if (type < 0 || type > TensorProto::INT2 || !is_supported(static_cast<ElementType>(type)))
    call.fail(what, " ", type_name(static_cast<int>(std::clamp<int64_t>(type, -1, 1000))),
              " is not supported");
  return static_cast<ElementType>(type);
}

ElementType quantized_type(const Call& call) {
  ElementType type = call.has(2) ? call.type(2) : TensorProto::UINT8;
  const int64_t given = call.get_int("output_dtype", 0);
  if (given != 0) type = checked_type(call, given, "output_dtype");
  if (!is_integer(type))
    call.fail("the result would have values of ", type_name(type),
              "; quantized values are integers of 8 to 64 bits");
  return type;
}

void infer_quantize(Call& call) {
  scale_layout(call);
  call.give(0, quantized_type(call), call.shape(0));
}

double quantized(ElementType type, double quotient, double zero) {
  return saturated(type, std::nearbyint(quotient) + zero);
}

void evaluate_quantize(Call& call) {
  const ScaleLayout layout = scale_layout(call);
  const ElementType type = quantized_type(call);
  std::vector<double> values = numbers(call, 0, "x");
  const std::vector<double> scales = numbers(call, 1, "y_scale");
  std::vector<double> zeros(scales.size(), 0);
  if (call.has(2)) zeros = numbers(call, 2, "y_zero_point");
  // The quotient has the precision of the scale.
  ElementType precision = call.type(1);
  if (call.get_int("precision", 0) != 0)
    precision = checked_type(call, call.get_int("precision", 0), "precision");
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = layout.place(i);
    values[i] = quantized(type, rounded_to(precision, values[i] / scales[place]), zeros[place]);
  }
  call.give(0, Array::of_doubles(type, call.shape(0), values));
}

ElementType dequantized_type(const Call& call) {
  const int64_t given = call.get_int("output_dtype", 0);
  return given != 0 ? checked_type(call, given, "output_dtype") : call.type(1);
}

void infer_dequantize(Call& call) {
  need_quantized(call, {0});
  scale_layout(call);
  call.give(0, dequantized_type(call), call.shape(0));
}

void evaluate_dequantize(Call& call) {
  const ScaleLayout layout = scale_layout(call);
  std::vector<double> values = numbers(call, 0, "x");
  const std::vector<double> scales = numbers(call, 1, "x_scale");
  std::vector<double> zeros(scales.size(), 0);
  if (call.has(2)) zeros = numbers(call, 2, "x_zero_point");
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = layout.place(i);
    values[i] = (values[i] - zeros[place]) * scales[place];
  }
  call.give(0, Array::of_doubles(dequantized_type(call), call.shape(0), values));
}

// DynamicQuantizeLinear: the scale follows from the values.

void infer_dynamic_quantize(Call& call) {
  need_floats(call, 0, "x");
  call.give(0, TensorProto::UINT8, call.shape(0));
  call.give(1, TensorProto::FLOAT, Shape());
  call.give(2, TensorProto::UINT8, Shape());
}

void evaluate_dynamic_quantize(Call& call) {
  std::vector<double> values = numbers(call, 0, "x");
  double least = 0;
  double most = 0;
  for (const double value : values) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // In single precision, as the operator is defined.
  const float scale = static_cast<float>(most - least) / 255.0F;
  const double zero =
      scale > 0 ? saturated(TensorProto::UINT8, static_cast<float>(-least) / scale) : 0;
  for (double& value : values)
    value = scale > 0 ? quantized(TensorProto::UINT8, static_cast<float>(value) / scale, zero) : 0;
  call.give(0, Array::of_doubles(TensorProto::UINT8, call.shape(0), values));
  call.give(1, Array::scalar(TensorProto::FLOAT, scale));
  call.give(2, Array::scalar(TensorProto::UINT8, zero));
}

// Products

/// Input i broadcast to the matrix `to`: a scalar, one value for each row (or, of the right factor,
/// each column), or a shape that broadcasts.
std::vector<double> for_matrix(const Call& call, size_t i, std::string_view what, const Shape& to,
                               bool by_row) {
  if (!call.has(i)) return std::vector<double>(checked_count(call, to), 0);
  Shape shape = call.shape(i);
  if (shape.rank() == 1 && by_row && to.rank() > 1) shape = Shape{shape[0], 1};
  if (shape.count() == 1) shape = Shape();
  return broadcast_to(call, what, numbers(call, i, what), shape, to);
}

std::vector<double> without_zero(const Call& call, size_t i, size_t zero, bool by_row) {
  std::vector<double> values = numbers(call, i, "a factor");
  const std::vector<double> zeros = for_matrix(call, zero, "a zero point", call.shape(i), by_row);
  for (size_t k = 0; k < values.size(); ++k) values[k] -= zeros[k];
  return values;
}

void infer_matmul_integer(Call& call) {
  need_quantized(call, {0, 1});
  call.give(0, TensorProto::INT32, product_shape(call, call.shape(0), call.shape(1)).output);
}

void evaluate_matmul_integer(Call& call) {
  const ProductShape shape = product_shape(call, call.shape(0), call.shape(1));
  const std::vector<double> sums =
      matrix_product(shape, without_zero(call, 0, 2, true), without_zero(call, 1, 3, false));
  std::vector<int64_t> result(sums.size());
  std::transform(sums.begin(), sums.end(), result.begin(),
                 [](double v) { return std::llround(v); });
  call.give(0, Array::of_integers(TensorProto::INT32, shape.output, result));
}

// Inputs: a, its scale and zero point, b, its, and those of y.
void infer_qlinear_matmul(Call& call) {
  need_quantized(call, {0, 3, 7});
  call.give(0, call.type(7), product_shape(call, call.shape(0), call.shape(3)).output);
}

void evaluate_qlinear_matmul(Call& call) {
  const ProductShape shape = product_shape(call, call.shape(0), call.shape(3));
  std::vector<double> a = without_zero(call, 0, 2, true);
  std::vector<double> b = without_zero(call, 3, 5, false);
  const std::vector<double> a_scales = for_matrix(call, 1, "a_scale", call.shape(0), true);
  const std::vector<double> b_scales = for_matrix(call, 4, "b_scale", call.shape(3), false);
  for (size_t i = 0; i < a.size(); ++i) a[i] *= a_scales[i];
  for (size_t i = 0; i < b.size(); ++i) b[i] *= b_scales[i];
  std::vector<double> y = matrix_product(shape, a, b);
  const std::vector<double> scales = for_matrix(call, 6, "y_scale", shape.output, true);
  const std::vector<double> zeros = for_matrix(call, 7, "y_zero_point", shape.output, true);
  for (size_t i = 0; i < y.size(); ++i) {
    // Single precision takes back what the sums in double are off from a half.
    const double quotient = rounded_to(TensorProto::FLOAT, y[i] / scales[i]);
    y[i] = quantized(call.type(7), quotient, zeros[i]);
  }
  call.give(0, Array::of_doubles(call.type(7), shape.output, y));
}

// Inputs: x, its scale and zero point, w, its, those of y, and the bias.
void infer_qlinear_conv(Call& call) {
  need_quantized(call, {0, 3, 7});
  call.give(0, call.type(7), convolution_shape(call, 3, 8).output());
}

void evaluate_qlinear_conv(Call& call) {
  const ConvolutionShape shape = convolution_shape(call, 3, 8);
  std::vector<double> x = numbers(call, 0, "x");
  std::vector<double> w = numbers(call, 3, "w");
  const double x_zero = number(call, 2, "x_zero_point");
  const std::vector<double> w_zeros = zero_points(call, 5, "w_zero_point", shape.out_channels);
  const std::vector<double> w_scales = zero_points(call, 4, "w_scale", shape.out_channels);
  for (double& value : x) value -= x_zero;
  for (size_t i = 0; i < w.size(); ++i) w[i] -= w_zeros[i / (w.size() / w_zeros.size())];
  std::vector<double> y = convolve(shape, x, w);
  std::vector<double> bias(w_scales.size(), 0);
  if (call.has(8)) bias = numbers(call, 8, "B");
  const double factor = number(call, 1, "x_scale") / number(call, 6, "y_scale");
  const double zero = number(call, 7, "y_zero_point");
  const auto inner = static_cast<size_t>(output_count(shape.axes));
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t channel = i / inner % bias.size();
    const double quotient = (y[i] + bias[channel]) * (w_scales[channel] * factor);
    y[i] = quantized(call.type(7), rounded_to(TensorProto::FLOAT, quotient), zero);
  }
  call.give(0, Array::of_doubles(call.type(7), shape.output(), y));
}

}  // namespace

void add_quantization_operators(OperatorTable& table) {
  table.add({.name = "QuantizeLinear",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_quantize,
             .evaluate = evaluate_quantize});
  table.add({.name = "DequantizeLinear",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_dequantize,
             .evaluate = evaluate_dequantize});
  table.add({.name = "DynamicQuantizeLinear",
             .max_outputs = 3,
             .infer = infer_dynamic_quantize,
             .evaluate = evaluate_dynamic_quantize});
  table.add({.name = "MatMulInteger",
             .min_inputs = 2,
             .max_inputs = 4,
             .infer = infer_matmul_integer,
             .evaluate = evaluate_matmul_integer});
  table.add({.name = "QLinearMatMul",
             .min_inputs = 8,
             .max_inputs = 8,
             .infer = infer_qlinear_matmul,
             .evaluate = evaluate_qlinear_matmul});
  table.add({.name = "QLinearConv",
             .min_inputs = 8,
             .max_inputs = 9,
             .infer = infer_qlinear_conv,
             .evaluate = evaluate_qlinear_conv});
}

}  // namespace crema::onnx
