// Reductions over axes: sums, products, extremes, norms; the index of an extreme; softmaxes. Sums
// of floats are made in double. Integers stay integers of 64 bits and wrap as those of C++.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

struct ReductionShape {
  std::vector<bool> reduced;  // by axis of the input
  Shape output;
  int64_t size = 1;  // elements that become one
};

ReductionShape reduction_of(const Call& call) {
  const Shape& shape = call.shape(0);
  const auto axes = call.ints_of("axes", 1, call.op() == "ReduceSum" ? 13 : 18);
  ReductionShape result;
  if (!axes || axes->empty()) {
    result.reduced.assign(static_cast<size_t>(shape.rank()),
                          call.get_int("noop_with_empty_axes", 0) == 0);
  } else {
    result.reduced.assign(static_cast<size_t>(shape.rank()), false);
    for (const int axis : call.canonical(*axes, shape.rank()))
      result.reduced[static_cast<size_t>(axis)] = true;
  }
  const bool keep = call.get_int("keepdims", 1) != 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> reduced_dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!result.reduced[static_cast<size_t>(axis)]) {
      dims.push_back(shape[axis]);
    } else {
      reduced_dims.push_back(shape[axis]);
      if (keep) dims.push_back(1);
    }
  }
  result.output = Shape(dims);
  result.size = Shape(reduced_dims).count();
  return result;
}

void infer_reduce(Call& call) { call.give(0, call.type(0), reduction_of(call).output); }

/// For each element of the input, the element of the output that takes it.
std::vector<int64_t> reduction_targets(const Shape& shape, const std::vector<bool>& reduced) {
  const auto rank = static_cast<size_t>(shape.rank());
  std::vector<int64_t> steps(rank, 0);
  int64_t step = 1;
  for (size_t axis = rank; axis-- > 0;) {
    if (reduced[axis]) continue;
    steps[axis] = step;
    step *= shape.dims()[axis];
  }
  std::vector<int64_t> targets;
  if (shape.count() == 0) return targets;
  targets.reserve(static_cast<size_t>(shape.count()));
  std::vector<int64_t> index(rank, 0);
  do {
    int64_t target = 0;
    for (size_t axis = 0; axis < rank; ++axis) target += index[axis] * steps[axis];
    targets.push_back(target);
  } while (next_index(index, shape.dims()));
  return targets;
}

template <class T, class F>
std::vector<T> reduced_by(const std::vector<T>& values, const std::vector<int64_t>& targets,
                          size_t count, T start, F combine) {
  std::vector<T> result(count, start);
  for (size_t i = 0; i < values.size(); ++i) {
    T& target = result[static_cast<size_t>(targets[i])];
    target = combine(target, values[i]);
  }
  return result;
}

double add_double(double a, double b) { return a + b; }

/// NaN wins, as in numpy.
double max_double(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double min_double(double a, double b) { return a < b || std::isnan(a) ? a : b; }

std::vector<double> log_sum_exp(const std::vector<double>& values,
                                const std::vector<int64_t>& targets, size_t count) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> greatest = reduced_by(values, targets, count, -kInfinity, max_double);
  for (double& value : greatest)
    if (std::isinf(value)) value = 0;
  std::vector<double> sums(count, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto target = static_cast<size_t>(targets[i]);
    sums[target] += std::exp(values[i] - greatest[target]);
  }
  for (size_t i = 0; i < count; ++i) sums[i] = greatest[i] + std::log(sums[i]);
  return sums;
}

std::vector<double> reduce_doubles(const Call& call, std::vector<double> values,
                                   const std::vector<int64_t>& targets, size_t count,
                                   int64_t size) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string& op = call.op();
  if (op == "ReduceMax") return reduced_by(values, targets, count, -kInfinity, max_double);
  if (op == "ReduceMin") return reduced_by(values, targets, count, kInfinity, min_double);
  if (op == "ReduceProd")
    return reduced_by(values, targets, count, 1.0, [](double a, double b) { return a * b; });
  if (op == "ReduceLogSumExp") return log_sum_exp(values, targets, count);
  if (op == "ReduceL1")
    for (double& value : values) value = std::abs(value);
  if (op == "ReduceL2" || op == "ReduceSumSquare")
    for (double& value : values) value *= value;
  std::vector<double> sums = reduced_by(values, targets, count, 0.0, add_double);
  for (double& sum : sums) {
    if (op == "ReduceMean") sum /= static_cast<double>(size);
    if (op == "ReduceL2") sum = std::sqrt(sum);
    if (op == "ReduceLogSum") sum = std::log(sum);
  }
  return sums;
}

/// As bits: unsigned arithmetic wraps.
std::vector<uint64_t> reduce_integers(const Call& call, std::vector<uint64_t> values,
                                      const std::vector<int64_t>& targets, size_t count) {
  const std::string& op = call.op();
  if (op == "ReduceProd")
    return reduced_by(values, targets, count, uint64_t{1},
                      [](uint64_t a, uint64_t b) { return a * b; });
  for (uint64_t& value : values) {
    if (op == "ReduceSumSquare") value *= value;
    if (op == "ReduceL1" && !is_unsigned(call.type(0)) && static_cast<int64_t>(value) < 0)
      value = uint64_t{0} - value;
  }
  return reduced_by(values, targets, count, uint64_t{0},
                    [](uint64_t a, uint64_t b) { return a + b; });
}

/// The least or greatest number of an integer type.
int64_t limit_of(ElementType type, bool greatest) {
  const size_t bits = element_size(type) * 8;
  if (type == TensorProto::BOOL) return greatest ? 1 : 0;
  if (is_unsigned(type))
    return greatest ? static_cast<int64_t>(~uint64_t{0} >> (64 - bits)) : int64_t{0};
  const auto most = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return greatest ? most : -most - 1;
}

/// Keys keep the order of all types; the element of the greatest one is taken.
Array extreme_of_integers(const Array& array, const Shape& output, size_t count,
                          const std::vector<int64_t>& targets, bool greatest) {
  const std::vector<uint64_t> keys = order_keys(array, !greatest);
  const std::vector<int64_t> values = array.integers();
  std::vector<int64_t> best(count, limit_of(array.type(), !greatest));
  std::vector<uint64_t> best_key(count, 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto target = static_cast<size_t>(targets[i]);
    if (keys[i] < best_key[target]) continue;
    best_key[target] = keys[i];
    best[target] = values[i];
  }
  return Array::of_integers(array.type(), output, best);
}

void evaluate_reduce(Call& call) {
  const Array& data = call.constant(0, "data");
  const ReductionShape shape = reduction_of(call);
  const size_t count = checked_count(call, shape.output);
  const std::vector<int64_t> targets = reduction_targets(data.shape(), shape.reduced);
  const std::string& op = call.op();
  const bool exact =
      op == "ReduceSum" || op == "ReduceProd" || op == "ReduceL1" || op == "ReduceSumSquare";
  if (is_float(data.type()) || (!exact && op != "ReduceMax" && op != "ReduceMin")) {
    std::vector<double> result = reduce_doubles(call, data.doubles(), targets, count, shape.size);
    call.give(0, Array::of_doubles(data.type(), shape.output, result));
  } else if (!exact) {
    call.give(0, extreme_of_integers(data, shape.output, count, targets, op == "ReduceMax"));
  } else {
    const std::vector<int64_t> values = data.integers();
    const std::vector<uint64_t> sums =
        reduce_integers(call, {values.begin(), values.end()}, targets, count);
    call.give(0, Array::of_integers(data.type(), shape.output,
                                    std::vector<int64_t>(sums.begin(), sums.end())));
  }
}

/// The shape without, or with 1 at, the axis.
Shape without_axis(const Shape& shape, int axis, bool keep) {
  std::vector<int64_t> dims = shape.dims();
  if (keep)
    dims[static_cast<size_t>(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  return Shape(dims);
}

void infer_arg_extreme(Call& call) {
  const int axis = call.canonical(call.get_int("axis", 0), call.shape(0).rank());
  if (call.shape(0)[axis] == 0)
    call.fail("axis ", axis, " of ", call.shape(0).str(), " has no elements to choose from");
  call.give(0, TensorProto::INT64,
            without_axis(call.shape(0), axis, call.get_int("keepdims", 1) != 0));
}

void evaluate_arg_extreme(Call& call) {
  const Array& data = call.constant(0, "data");
  const int axis = call.canonical(call.get_int("axis", 0), data.shape().rank());
  const bool last = call.get_int("select_last_index", 0) != 0;
  const Shape shape = without_axis(data.shape(), axis, call.get_int("keepdims", 1) != 0);
  const AxisView view = view_along(data.shape(), axis);
  const std::vector<uint64_t> keys = order_keys(data, call.op() == "ArgMin");
  std::vector<int64_t> result(checked_count(call, shape), 0);
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      uint64_t best_key = 0;
      for (int64_t k = 0; k < view.size; ++k) {
        const uint64_t key = keys[static_cast<size_t>((o * view.size + k) * view.inner + i)];
        if (k != 0 && (last ? key < best_key : key <= best_key)) continue;
        best = k;
        best_key = key;
      }
      result[static_cast<size_t>(o * view.inner + i)] = best;
    }
  }
  call.give(0, Array::of_integers(TensorProto::INT64, shape, result));
}

/// Before opset 13, all axes from `axis` on are one.
AxisView softmax_view(const Call& call) {
  const Shape& shape = call.shape(0);
  if (call.opset() >= 13)
    return view_along(shape, call.canonical(call.get_int("axis", -1), shape.rank()));
  const int axis = call.canonical(call.get_int("axis", 1), shape.rank());
  return {shape.count(0, axis), shape.count(axis), 1};
}

void infer_softmax(Call& call) {
  softmax_view(call);
  call.give(0, call.type(0), call.shape(0));
}

void make_softmax(const std::string& op, ElementType type, std::span<double> line) {
  if (line.empty()) return;
  if (op == "Softmax") {
    softmax_line(type, line);
    return;
  }
  const auto best = std::max_element(line.begin(), line.end());
  if (op == "Hardmax") {
    std::fill(line.begin(), line.end(), 0.0);
    *best = 1;
    return;
  }
  const double greatest = *best;
  double sum = 0;
  for (const double value : line) sum += std::exp(value - greatest);
  for (double& value : line) value = value - greatest - std::log(sum);
}

void evaluate_softmax(Call& call) {
  const Array& input = call.constant(0, "input");
  const AxisView view = softmax_view(call);
  checked_count(call, input.shape());
  std::vector<double> values = input.doubles();
  std::vector<double> line(static_cast<size_t>(view.size));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const auto place = [&](size_t k) {
        return static_cast<size_t>((o * view.size + static_cast<int64_t>(k)) * view.inner + i);
      };
      for (size_t k = 0; k < line.size(); ++k) line[k] = values[place(k)];
      make_softmax(call.op(), input.type(), line);
      for (size_t k = 0; k < line.size(); ++k) values[place(k)] = line[k];
    }
  }
  call.give(0, Array::of_doubles(input.type(), input.shape(), values));
}

}  // namespace

void add_reduction_operators(OperatorTable& table) {
  for (const char* name :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    table.add({.name = name, .max_inputs = 2, .infer = infer_reduce, .evaluate = evaluate_reduce});
  for (const char* name : {"ArgMax", "ArgMin"})
    table.add({.name = name, .infer = infer_arg_extreme, .evaluate = evaluate_arg_extreme});
  for (const char* name : {"Softmax", "LogSoftmax", "Hardmax"})
    table.add({.name = name, .infer = infer_softmax, .evaluate = evaluate_softmax});
}

}  // namespace crema::onnx
