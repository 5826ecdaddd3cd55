// Operators whose values follow from those in front of them along an axis: CumSum and CumProd.

#include "onnx/operators/all.hpp"

namespace crema::onnx {

namespace {

int scan_axis(const Call& call) {
  const Array& axis = call.constant(1, "axis");
  if (axis.count() != 1) call.fail("axis has shape ", axis.shape().str(), "; it is one number");
  return call.canonical(axis.integers()[0], call.shape(0).rank());
}

void infer_scan(Call& call) {
  if (call.type(0) == TensorProto::BOOL) call.fail("input 0 has values of BOOL; it takes numbers");
  scan_axis(call);
  call.give(0, call.type(0), call.shape(0));
}

// Integers wrap around.
double scanned(double sum, double next, bool of_products) {
  return of_products ? sum * next : sum + next;
}
int64_t scanned(int64_t sum, int64_t next, bool of_products) {
  const auto a = static_cast<uint64_t>(sum);
  const auto b = static_cast<uint64_t>(next);
  return static_cast<int64_t>(of_products ? a * b : a + b);
}

template <class T>
std::vector<T> scan(const Call& call, std::vector<T> values) {
  const Shape& shape = call.shape(0);
  const int axis = scan_axis(call);
  const bool of_products = call.op() == "CumProd";
  const bool exclusive = call.get_int("exclusive", 0) != 0;
  const bool reverse = call.get_int("reverse", 0) != 0;
  const int64_t inner = shape.count(axis + 1);
  const int64_t size = shape[axis];
  const int64_t outer = shape.count(0, axis);
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t begin = line / inner * size * inner + line % inner;
    T sum = of_products ? T{1} : T{0};
    for (int64_t i = 0; i < size; ++i) {
      T& value = values[static_cast<size_t>(begin + (reverse ? size - 1 - i : i) * inner)];
      const T next = scanned(sum, value, of_products);
      value = exclusive ? sum : next;
      sum = next;
    }
  }
  return values;
}

void evaluate_scan(Call& call) {
  const Array& x = call.constant(0, "values");
  if (is_float(x.type()))
    return call.give(0, Array::of_doubles(x.type(), x.shape(), scan(call, x.doubles())));
  call.give(0, Array::of_integers(x.type(), x.shape(), scan(call, x.integers())));
}

}  // namespace

void add_scan_operators(OperatorTable& table) {
  for (const char* const name : {"CumSum", "CumProd"})
    table.add({.name = name,
               .min_inputs = 2,
               .max_inputs = 2,
               .infer = infer_scan,
               .evaluate = evaluate_scan});
}

}  // namespace crema::onnx
