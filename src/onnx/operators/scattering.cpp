// Operators that write at indices which are values: ScatterElements, ScatterND, TensorScatter.

#include <algorithm>
#include <cmath>

#include "onnx/operators/all.hpp"
#include "onnx/operators/sources.hpp"

namespace crema::onnx {

namespace {

enum class ScatterReduction { none, add, mul, max, min };

ScatterReduction scatter_reduction(const Call& call) {
  const std::string name = call.get_string("reduction", "none");
  if (name == "none") return ScatterReduction::none;
  if (name == "add") return ScatterReduction::add;
  if (name == "mul") return ScatterReduction::mul;
  if (name == "max") return ScatterReduction::max;
  if (name == "min") return ScatterReduction::min;
  call.fail("reduction is '", name, "'; use none, add, mul, max or min");
}

double reduced(ScatterReduction reduction, double a, double b) {
  if (reduction == ScatterReduction::add) return a + b;
  if (reduction == ScatterReduction::mul) return a * b;
  if (reduction == ScatterReduction::max) return std::isnan(a) || a > b ? a : b;
  return std::isnan(a) || a < b ? a : b;
}

int64_t reduced(ScatterReduction reduction, int64_t a, int64_t b, bool by_bits) {
  const auto bits_a = static_cast<uint64_t>(a);
  const auto bits_b = static_cast<uint64_t>(b);
  if (reduction == ScatterReduction::add) return static_cast<int64_t>(bits_a + bits_b);
  if (reduction == ScatterReduction::mul) return static_cast<int64_t>(bits_a * bits_b);
  const bool less = by_bits ? bits_a < bits_b : a < b;
  return less == (reduction == ScatterReduction::min) ? a : b;
}

// The values with update i written to place `places[i]`, or combined with what is there.
Array scattered(const Array& x, const Array& updates, const std::vector<int64_t>& places,
                ScatterReduction reduction) {
  const auto count = static_cast<int64_t>(places.size());
  if (reduction == ScatterReduction::none) {
    std::vector<int64_t> sources = steps(x.count());
    for (int64_t i = 0; i < count; ++i)
      sources[static_cast<size_t>(places[static_cast<size_t>(i)])] = x.count() + i;
    const Array* const parts[] = {&x, &updates};
    return chained(parts).taken(x.shape(), sources);
  }
  if (is_float(x.type())) {
    std::vector<double> values = x.doubles();
    const std::vector<double> news = updates.doubles();
    for (size_t i = 0; i < news.size(); ++i) {
      double& value = values[static_cast<size_t>(places[i])];
      value = reduced(reduction, value, news[i]);
    }
    return Array::of_doubles(x.type(), x.shape(), values);
  }
  const bool by_bits = x.type() == TensorProto::UINT64;
  std::vector<int64_t> values = x.integers();
  const std::vector<int64_t> news = updates.integers();
  for (size_t i = 0; i < news.size(); ++i) {
    int64_t& value = values[static_cast<size_t>(places[i])];
    value = reduced(reduction, value, news[i], by_bits);
  }
  // Sums and products of narrow integers wrap around as they would at each step.
  return Array::of_integers(x.type(), x.shape(), values);
}

void need_updates(const Call& call, size_t i) {
  if (call.type(i) != call.type(0))
    call.fail("updates of ", type_name(call.type(i)), " for values of ", type_name(call.type(0)),
              "; cast one of them");
}

void infer_scatter_elements(Call& call) {
  const Shape& shape = call.shape(0);
  const Shape& where = call.shape(1);
  need_updates(call, 2);
  if (!is_integer(call.type(1)))
    call.fail("indices of ", type_name(call.type(1)), "; they are INT32 or INT64");
  const int axis = call.canonical(call.get_int("axis", 0), shape.rank());
  if (where != call.shape(2) || where.rank() != shape.rank())
    call.fail("updates of shape ", call.shape(2).str(), " at indices of shape ", where.str(),
              " into values of shape ", shape.str());
  for (int k = 0; k < shape.rank(); ++k) {
    if (k != axis && where[k] > shape[k])
      call.fail("indices of shape ", where.str(), " exceed values of shape ", shape.str(),
                " in axis ", k);
  }
  scatter_reduction(call);
  call.give(0, call.type(0), shape);
}

void evaluate_scatter_elements(Call& call) {
  const Array& x = call.constant(0, "values");
  const Array& where = call.constant(1, "indices");
  const auto axis = static_cast<size_t>(call.canonical(call.get_int("axis", 0), x.shape().rank()));
  const int64_t size = x.shape()[static_cast<int>(axis)];
  const int64_t stride = strides_of(x.shape())[axis];
  std::vector<std::vector<int64_t>> indices = all_indices(where.shape());
  for (int64_t& index : indices[axis]) index = 0;
  std::vector<int64_t> places = sources_at(x.shape(), std::move(indices));
  const std::vector<int64_t> numbers = where.integers();
  for (size_t i = 0; i < places.size(); ++i) places[i] += checked_index(numbers[i], size) * stride;
  call.give(0, scattered(x, call.constant(2, "updates"), places, scatter_reduction(call)));
}

void infer_scatter_nd(Call& call) {
  const Shape& shape = call.shape(0);
  const Shape& where = call.shape(1);
  need_updates(call, 2);
  if (call.type(1) != TensorProto::INT64)
    call.fail("indices of ", type_name(call.type(1)), "; they are INT64");
  if (where.rank() < 1 || shape.rank() < 1 || where[-1] < 1 || where[-1] > shape.rank())
    call.fail("indices of shape ", where.str(), " into values of shape ", shape.str());
  std::vector<int64_t> dims = where.dims();
  dims.pop_back();
  dims.insert(dims.end(), shape.dims().begin() + where[-1], shape.dims().end());
  if (call.shape(2) != Shape(dims))
    call.fail("updates of shape ", call.shape(2).str(), " at indices of shape ", where.str(),
              " into values of shape ", shape.str(), "; their shape is ", Shape(dims).str());
  scatter_reduction(call);
  call.give(0, call.type(0), shape);
}

void evaluate_scatter_nd(Call& call) {
  const Array& x = call.constant(0, "values");
  const Array& where = call.constant(1, "indices");
  const Array& updates = call.constant(2, "updates");
  const int depth = static_cast<int>(where.shape()[-1]);
  const int64_t run = x.shape().count(depth);
  const std::vector<int64_t> strides = strides_of(x.shape());
  const std::vector<int64_t> numbers = where.integers();
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(updates.count()));
  for (size_t i = 0; i < numbers.size(); i += static_cast<size_t>(depth)) {
    int64_t place = 0;
    for (int k = 0; k < depth; ++k) {
      const auto axis = static_cast<size_t>(k);
      place += checked_index(numbers[i + axis], x.shape()[k]) * strides[axis];
    }
    for (int64_t k = 0; k < run; ++k) places.push_back(place + k);
  }
  call.give(0, scattered(x, updates, places, scatter_reduction(call)));
}

int cache_axis(const Call& call) {
  const int axis = call.canonical(call.get_int("axis", -2), call.shape(0).rank());
  if (axis == 0) call.fail("axis 0 is the batch; it cannot hold the sequence");
  return axis;
}

void infer_tensor_scatter(Call& call) {
  const int axis = cache_axis(call);
  need_updates(call, 1);
  Shape update = call.shape(1);
  if (update.rank() != call.shape(0).rank() || update[axis] > call.shape(0)[axis])
    call.fail("an update of shape ", update.str(), " for values of shape ", call.shape(0).str());
  update.set(axis, call.shape(0)[axis]);
  if (update != call.shape(0))
    call.fail("an update of shape ", call.shape(1).str(), " for values of shape ",
              call.shape(0).str(), ": they differ beside axis ", axis);
  if (call.has(2) && call.shape(2) != Shape{call.shape(0)[0]})
    call.fail("write_indices of shape ", call.shape(2).str(), " for a batch of ", call.shape(0)[0]);
  const std::string mode = call.get_string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    call.fail("mode is '", mode, "'; use linear or circular");
  call.give(0, call.type(0), call.shape(0));
}

void evaluate_tensor_scatter(Call& call) {
  const Array& x = call.constant(0, "values");
  const Array& updates = call.constant(1, "updates");
  const auto axis = static_cast<size_t>(cache_axis(call));
  const int64_t size = x.shape()[static_cast<int>(axis)];
  const int64_t length = updates.shape()[static_cast<int>(axis)];
  const bool circular = call.get_string("mode", "linear") == "circular";
  std::vector<int64_t> begins(static_cast<size_t>(x.shape()[0]), 0);
  if (call.has(2)) begins = call.constant(2, "write_indices").integers();
  for (const int64_t begin : begins) {
    if (begin < 0 || begin >= std::max<int64_t>(size, 1) || (!circular && begin + length > size))
      call.fail("a sequence of ", length, " written at ", begin, " of ", size);
  }
  const int64_t stride = strides_of(x.shape())[axis];
  const int64_t in_batch = updates.shape().count(1);
  std::vector<std::vector<int64_t>> indices = all_indices(updates.shape());
  for (int64_t& index : indices[axis]) index = 0;
  std::vector<int64_t> places = sources_at(x.shape(), std::move(indices));
  const int64_t update_stride = strides_of(updates.shape())[axis];
  for (size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const int64_t step = place / update_stride % length;
    places[i] += (begins[static_cast<size_t>(place / in_batch)] + step) % size * stride;
  }
  call.give(0, scattered(x, updates, places, ScatterReduction::none));
}

}  // namespace

void add_scattering_operators(OperatorTable& table) {
  for (const char* const name : {"Scatter", "ScatterElements"})
    table.add({.name = name,
               .min_inputs = 3,
               .max_inputs = 3,
               .infer = infer_scatter_elements,
               .evaluate = evaluate_scatter_elements});
  table.add({.name = "ScatterND",
             .min_inputs = 3,
             .max_inputs = 3,
             .infer = infer_scatter_nd,
             .evaluate = evaluate_scatter_nd});
  table.add({.name = "TensorScatter",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_tensor_scatter,
             .evaluate = evaluate_tensor_scatter});
}

}  // namespace crema::onnx
