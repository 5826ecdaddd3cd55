// MatMul, Gemm and Det. Sums of floats are made in double, those of integers wrap.
#include <cmath>
#include <utility>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"
#include "onnx/operators/matrices.hpp"

namespace crema::onnx {

ProductShape product_shape(const Call& call, const Shape& a, const Shape& b) {
  if (a.rank() < 1 || b.rank() < 1)
    call.fail("A ", a.str(), " and B ", b.str(), "; both need an axis at least");
  std::vector<int64_t> dims_a = a.dims();
  std::vector<int64_t> dims_b = b.dims();
  if (a.rank() == 1) dims_a.insert(dims_a.begin(), 1);
  if (b.rank() == 1) dims_b.push_back(1);
  ProductShape shape{.a = Shape(dims_a), .b = Shape(dims_b)};
  shape.rows = shape.a[-2];
  shape.depth = shape.a[-1];
  shape.columns = shape.b[-1];
  if (shape.b[-2] != shape.depth)
    call.fail("A ", a.str(), " has rows of ", shape.depth, " and B ", b.str(), " columns of ",
              shape.b[-2]);
  shape.batch = broadcast(Shape(std::vector<int64_t>(dims_a.begin(), dims_a.end() - 2)),
                          Shape(std::vector<int64_t>(dims_b.begin(), dims_b.end() - 2)));
  std::vector<int64_t> dims = shape.batch.dims();
  if (a.rank() > 1) dims.push_back(shape.rows);
  if (b.rank() > 1) dims.push_back(shape.columns);
  shape.output = Shape(dims);
  checked_count(call, shape.output);
  return shape;
}

namespace {

void infer_matmul(Call& call) {
  call.give(0, call.type(0), product_shape(call, call.shape(0), call.shape(1)).output);
}

std::vector<uint64_t> unsigned_of(const Array& array) {
  const std::vector<int64_t> values = array.integers();
  return {values.begin(), values.end()};
}

Array of_unsigned(ElementType type, const Shape& shape, const std::vector<uint64_t>& values) {
  return Array::of_integers(type, shape, std::vector<int64_t>(values.begin(), values.end()));
}

void evaluate_matmul(Call& call) {
  const Array& a = call.constant(0, "A");
  const Array& b = call.constant(1, "B");
  const ProductShape shape = product_shape(call, a.shape(), b.shape());
  if (is_float(a.type()))
    call.give(0, Array::of_doubles(a.type(), shape.output,
                                   matrix_product(shape, a.doubles(), b.doubles())));
  else
    call.give(0, of_unsigned(a.type(), shape.output,
                             matrix_product(shape, unsigned_of(a), unsigned_of(b))));
}

// Gemm: alpha * A * B + beta * C.

struct GemmShape {
  bool transposes_a = false;
  bool transposes_b = false;
  ProductShape product;
};

GemmShape gemm_shape(const Call& call) {
  need_rank(call, 0, "A", 2, 2);
  need_rank(call, 1, "B", 2, 2);
  GemmShape shape;
  shape.transposes_a = call.get_int("transA", 0) != 0;
  shape.transposes_b = call.get_int("transB", 0) != 0;
  Shape a = call.shape(0);
  Shape b = call.shape(1);
  if (shape.transposes_a) a = Shape{a[1], a[0]};
  if (shape.transposes_b) b = Shape{b[1], b[0]};
  shape.product = product_shape(call, a, b);
  if (call.has(2)) need_broadcast(call, 2, "C", shape.product.output);
  return shape;
}

void infer_gemm(Call& call) { call.give(0, call.type(0), gemm_shape(call).product.output); }

/// (columns, rows) to (rows, columns).
std::vector<double> transposed(const std::vector<double>& values, int64_t rows, int64_t columns) {
  std::vector<double> result;
  result.reserve(values.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result.push_back(values[static_cast<size_t>(j * rows + i)]);
  return result;
}

void evaluate_gemm(Call& call) {
  const GemmShape shape = gemm_shape(call);
  const ProductShape& product = shape.product;
  std::vector<double> a = numbers(call, 0, "A");
  std::vector<double> b = numbers(call, 1, "B");
  if (shape.transposes_a) a = transposed(a, product.rows, product.depth);
  if (shape.transposes_b) b = transposed(b, product.depth, product.columns);
  std::vector<double> y = matrix_product(product, a, b);
  const double alpha = call.get_float("alpha", 1);
  for (double& value : y) value *= alpha;
  if (call.has(2)) {
    const double beta = call.get_float("beta", 1);
    const std::vector<double> c =
        broadcast_to(call, "C", numbers(call, 2, "C"), call.shape(2), product.output);
    for (size_t i = 0; i < y.size(); ++i) y[i] += beta * c[i];
  }
  call.give(0, Array::of_doubles(call.type(0), product.output, y));
}

// Det

Shape det_output(const Call& call) {
  const Shape& x = call.shape(0);
  if (x.rank() < 2 || x[-1] != x[-2]) call.fail("X ", x.str(), " has no square matrices");
  return Shape(std::vector<int64_t>(x.dims().begin(), x.dims().end() - 2));
}

void infer_det(Call& call) { call.give(0, call.type(0), det_output(call)); }

/// By elimination with the greatest pivot of each column.
double determinant(std::span<double> m, int64_t size) {
  const auto at = [&](int64_t i, int64_t j) -> double& {
    return m[static_cast<size_t>(i * size + j)];
  };
  double result = 1;
  for (int64_t k = 0; k < size; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < size; ++i)
      if (std::abs(at(i, k)) > std::abs(at(pivot, k))) pivot = i;
    if (at(pivot, k) == 0) return 0;
    if (pivot != k) {
      for (int64_t j = 0; j < size; ++j) std::swap(at(k, j), at(pivot, j));
      result = -result;
    }
    result *= at(k, k);
    for (int64_t i = k + 1; i < size; ++i) {
      const double factor = at(i, k) / at(k, k);
      for (int64_t j = k; j < size; ++j) at(i, j) -= factor * at(k, j);
    }
  }
  return result;
}

void evaluate_det(Call& call) {
  const Array& x = call.constant(0, "X");
  const Shape output = det_output(call);
  const int64_t size = x.shape()[-1];
  std::vector<double> values = x.doubles();
  std::vector<double> y(checked_count(call, output), 1);
  for (size_t n = 0; n < y.size(); ++n)
    y[n] = determinant(std::span(values).subspan(n * static_cast<size_t>(size * size),
                                                 static_cast<size_t>(size * size)),
                       size);
  call.give(0, Array::of_doubles(x.type(), output, y));
}

}  // namespace

void add_product_operators(OperatorTable& table) {
  table.add({.name = "MatMul",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_matmul,
             .evaluate = evaluate_matmul});
  table.add({.name = "Gemm",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_gemm,
             .evaluate = evaluate_gemm});
  table.add({.name = "Det", .infer = infer_det, .evaluate = evaluate_det});
}

}  // namespace crema::onnx
