#include "layers/mat_mul/products.hpp"

namespace crema {
namespace {

MatMulProblem as_one_matrix(MatMulProblem p) {
  p.m *= p.batch;
  p.batch = 1;
  return p;
}

}  // namespace

bool MatMulProblem::needs_several(MatMulPass of) const {
  return of == MatMulPass::of_b && shared && transpose_a && batch > 1;
}

MatMulProblem::Pass MatMulProblem::pass(MatMulPass of) const {
  if (shared && !transpose_a && batch > 1) return as_one_matrix(*this).pass(of);
  const int64_t of_a = m * k, of_b = shared ? 0 : k * n, of_y = m * n;
  DeviceProduct p{.factors = dtype, .result = dtype, .scale = scale, .batch = batch};
  const auto set = [&](bool transpose_first, bool transpose_second, int64_t rows, int64_t columns,
                       int64_t inner) {
    p.transpose_a = transpose_first;
    p.transpose_b = transpose_second;
    p.m = rows, p.n = columns, p.k = inner;
  };
  const auto strides = [&](int64_t first, int64_t second, int64_t result) {
    if (batch > 1) p.a_stride = first, p.b_stride = second, p.c_stride = result;
  };
  switch (of) {
    case MatMulPass::forward:
      set(transpose_a, transpose_b, m, n, k);
      strides(of_a, of_b, of_y);
      return {p, Operand::a, Operand::b};
    case MatMulPass::of_a:
      // dA = dY op(B)', or its transpose op(B) dY'.
      if (transpose_a) {
        set(transpose_b, true, k, m, n);
        strides(of_b, of_y, of_a);
        return {p, Operand::b, Operand::dy};
      }
      set(false, !transpose_b, m, k, n);
      strides(of_y, of_b, of_a);
      return {p, Operand::dy, Operand::b};
    case MatMulPass::of_b:
      // dB = op(A)' dY, or its transpose dY' op(A).
      if (transpose_b) {
        set(true, transpose_a, n, k, m);
        strides(of_y, of_a, of_b);
        return {p, Operand::dy, Operand::a};
      }
      set(!transpose_a, false, k, n, m);
      strides(of_a, of_y, of_b);
      return {p, Operand::a, Operand::dy};
  }
  throw Error("MatMul has no such pass");
}

TunedProblem MatMulProblem::tuned(MatMulPass of, const std::string& library) const {
  constexpr const char* kNames[] = {"forward", "of a", "of b"};
  return {text("matrices ", library, " ", kNames[static_cast<size_t>(of)], " ", to_string(dtype),
               " ", m, "x", k, transpose_a ? "'" : "", " by ", k, "x", n, transpose_b ? "'" : "",
               shared ? " shared" : "", ", batch "),
          Shape{batch}};
}

}  // namespace crema
