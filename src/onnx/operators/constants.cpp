// Operators that make values from attributes, shapes and a few numbers. Those that draw random
// numbers are refused: nothing says which numbers a model means.

#include <cmath>

#include "onnx/operators/all.hpp"
#include "onnx/operators/sources.hpp"

namespace crema::onnx {

namespace {

Array dense(const Call& call, const SparseTensorProto& message) {
  const Shape shape(std::vector<int64_t>(message.dims().begin(), message.dims().end()));
  const Array values = array_of(message.values());
  const Array where = array_of(message.indices());
  const int rank = shape.rank();
  const bool linear = where.shape().rank() == 1;
  if (values.shape().rank() != 1 || where.shape().rank() < 1 || where.shape().rank() > 2 ||
      where.shape()[0] != values.count() || (!linear && where.shape()[1] != rank))
    call.fail("a sparse tensor of shape ", shape.str(), " has ", values.count(),
              " values at indices of shape ", where.shape().str());
  constexpr int64_t kMostElements = int64_t{1} << 24;
  if (shape.count() > kMostElements)
    call.fail("a sparse tensor of shape ", shape.str(), " has ", shape.count(),
              " elements when it is written out; at most ", kMostElements, " are supported");
  const std::vector<int64_t> strides = linear ? std::vector<int64_t>{1} : strides_of(shape);
  const std::vector<int64_t> numbers = where.integers();
  std::vector<int64_t> sources(static_cast<size_t>(checked_count(shape)), kOutside);
  const int64_t count = values.count();
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (size_t k = 0; k < strides.size(); ++k) {
      const int64_t size = linear ? shape.count() : shape[static_cast<int>(k)];
      const int64_t number = numbers[static_cast<size_t>(i) * strides.size() + k];
      place += checked_index(number, size) * strides[k];
    }
    sources[static_cast<size_t>(place)] = i;
  }
  return values.taken(shape, sources);
}

void give_constant(Call& call) {
  if (const auto value = call.get_tensor("value")) return call.give(0, *value);
  if (call.has_attribute("value_float"))
    return call.give(0, Array::scalar(TensorProto::FLOAT, call.get_float("value_float", 0)));
  if (call.has_attribute("value_int")) {
    const int64_t value = call.get_int("value_int", 0);
    return call.give(0, Array::of_integers(TensorProto::INT64, Shape{}, {&value, 1}));
  }
  if (call.has_attribute("value_floats")) {
    const std::vector<double> values = call.get_floats("value_floats");
    const Shape shape{static_cast<int64_t>(values.size())};
    return call.give(0, Array::of_doubles(TensorProto::FLOAT, shape, values));
  }
  if (call.has_attribute("value_ints"))
    return call.give(0, Array::of_indices(call.get_ints("value_ints")));
  const AttributeProto* const sparse = call.attribute("sparse_value");
  if (sparse == nullptr || !sparse->has_sparse_tensor())
    call.fail("it has none of value, value_float(s), value_int(s) and sparse_value");
  call.give(0, dense(call, sparse->sparse_tensor()));
}

Array filling(const Call& call) {
  const auto value = call.get_tensor("value");
  if (!value) return Array::scalar(TensorProto::FLOAT, 0);
  if (value->count() != 1)
    call.fail("value has shape ", value->shape().str(), "; it is one element");
  return *value;
}

void infer_constant_of_shape(Call& call) {
  const Array& shape = call.constant(0, "shape");
  if (shape.shape().rank() != 1)
    call.fail("the shape is itself of shape ", shape.shape().str(), "; it is a vector");
  call.give(0, filling(call).type(), Shape(shape.integers()));
}

void evaluate_constant_of_shape(Call& call) {
  const Shape& shape = call.output(0).shape;
  const Array value = filling(call);
  const Array zeros(value.type(), shape);
  if (value.at(0) == 0 && !std::signbit(value.at(0))) return call.give(0, zeros);
  const std::vector<int64_t> sources(static_cast<size_t>(zeros.count()), 0);
  call.give(0, value.taken(shape, sources));
}

// Of the axes from `start` to `end`, which are cut to those that are there.
Array shape_values(const Call& call, const Shape& shape) {
  const int64_t rank = shape.rank();
  const auto place = [&](const char* name, int64_t otherwise) {
    const int64_t axis = call.get_int(name, otherwise);
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = place("start", 0);
  const int64_t end = std::max(place("end", rank), start);
  const std::span<const int64_t> dims = shape.dims();
  return Array::of_indices(
      dims.subspan(static_cast<size_t>(start), static_cast<size_t>(end - start)));
}

void infer_shape(Call& call) {
  const Array values = shape_values(call, call.shape(0));
  // A bound is not the shape.
  if (call.input(0).is_bound) return call.give(0, TensorProto::INT64, values.shape());
  call.give(0, values);
}

void evaluate_shape(Call& call) {
  call.give(0, shape_values(call, call.constant(0, "values").shape()));
}

Array size_value(const Shape& shape) {
  const int64_t count = shape.count();
  return Array::of_integers(TensorProto::INT64, Shape{}, {&count, 1});
}

void infer_size(Call& call) {
  if (call.input(0).is_bound) return call.give(0, TensorProto::INT64, Shape{});
  call.give(0, size_value(call.shape(0)));
}

void evaluate_size(Call& call) { call.give(0, size_value(call.constant(0, "values").shape())); }

int64_t range_count(const Call& call) {
  constexpr const char* kParts[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < 3; ++i) {
    if (call.constant(i, kParts[i]).count() != 1 || call.type(i) != call.type(0) ||
        call.type(i) == TensorProto::BOOL)
      call.fail("its ", kParts[i], " is ", type_name(call.type(i)), " of shape ",
                call.shape(i).str(), "; start, limit and delta are numbers of one type");
  }
  long double parts[3];  // holds 64-bit integers exactly
  for (size_t i = 0; i < 3; ++i) {
    const Array& part = call.constant(i, kParts[i]);
    parts[i] = is_float(part.type()) ? static_cast<long double>(part.at(0))
               : part.type() == TensorProto::UINT64
                   ? static_cast<long double>(static_cast<uint64_t>(part.integers()[0]))
                   : static_cast<long double>(part.integers()[0]);
  }
  if (parts[2] == 0) call.fail("delta is 0");
  const long double count = std::ceil((parts[1] - parts[0]) / parts[2]);
  if (std::isnan(count) || count > 2147483648.0L)
    call.fail("a range from ", parts[0], " to ", parts[1], " by ", parts[2],
              " has too many values");
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

void infer_range(Call& call) { call.give(0, call.type(0), Shape{range_count(call)}); }

void evaluate_range(Call& call) {
  const int64_t count = range_count(call);
  const Array& start = call.constant(0, "start");
  const Array& delta = call.constant(2, "delta");
  if (is_float(start.type())) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(start.at(0) + static_cast<double>(i) * delta.at(0));
    return call.give(0, Array::of_doubles(start.type(), Shape{count}, values));
  }
  std::vector<int64_t> values;
  const auto first = static_cast<uint64_t>(start.integers()[0]);
  const auto step = static_cast<uint64_t>(delta.integers()[0]);
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    values.push_back(static_cast<int64_t>(first + i * step));
  call.give(0, Array::of_integers(start.type(), Shape{count}, values));
}

void infer_eye_like(Call& call) {
  if (call.shape(0).rank() != 2)
    call.fail("input 0 has shape ", call.shape(0).str(), "; it has two axes");
  const int64_t number = call.get_int("dtype", call.type(0));
  const int type = static_cast<int>(number);
  if (type != number || !TensorProto::DataType_IsValid(type) ||
      !is_supported(static_cast<ElementType>(type)))
    call.fail("dtype is ", type_name(type), ", which is not supported");
  call.give(0, static_cast<ElementType>(type), call.shape(0));
}

void evaluate_eye_like(Call& call) {
  const Operand output = call.output(0);
  const int64_t rows = output.shape[0];
  const int64_t columns = output.shape[1];
  const int64_t k = call.get_int("k", 0);
  std::vector<int64_t> values(static_cast<size_t>(checked_count(output.shape)), 0);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t column = 0;
    if (__builtin_add_overflow(row, k, &column) || column < 0 || column >= columns) continue;
    values[static_cast<size_t>(row * columns + column)] = 1;
  }
  call.give(0, Array::of_integers(output.type, output.shape, values));
}

void refuse_random(Call& call) {
  call.fail(
      "it draws random numbers, which differ from one run to the next; remove it, or replace "
      "it by a constant");
}

}  // namespace

void add_constant_operators(OperatorTable& table) {
  table.add({.name = "Constant",
             .min_inputs = 0,
             .max_inputs = 0,
             .infer = give_constant,
             .evaluate = give_constant});
  table.add({.name = "ConstantOfShape",
             .infer = infer_constant_of_shape,
             .evaluate = evaluate_constant_of_shape});
  table.add({.name = "Shape", .infer = infer_shape, .evaluate = evaluate_shape});
  table.add({.name = "Size", .infer = infer_size, .evaluate = evaluate_size});
  table.add({.name = "Range",
             .min_inputs = 3,
             .max_inputs = 3,
             .infer = infer_range,
             .evaluate = evaluate_range});
  table.add({.name = "EyeLike", .infer = infer_eye_like, .evaluate = evaluate_eye_like});
  for (const char* const name : {"RandomNormal", "RandomNormalLike", "RandomUniform",
                                 "RandomUniformLike", "Multinomial", "Bernoulli"})
    table.add({.name = name, .min_inputs = 0, .infer = refuse_random});
}

}  // namespace crema::onnx
