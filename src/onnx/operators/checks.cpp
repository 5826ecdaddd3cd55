#include "onnx/operators/checks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace crema::onnx {

size_t checked_count(const Call& call, const Shape& shape) {
  const int64_t count = shape.count();
  if (count > kMaxExtent)
    call.fail("an array of ", shape.str(), " has ", count, " elements; at most ", kMaxExtent,
              " are computed");
  return static_cast<size_t>(count);
}

void need_rank(const Call& call, size_t i, std::string_view what, int least, int most) {
  const Shape& shape = call.shape(i);
  if (shape.rank() < least || shape.rank() > most)
    call.fail(what, " has shape ", shape.str(), "; it needs ", least,
              least == most ? text(" axes") : text(" to ", most, " axes"));
  for (const int64_t dim : shape.dims())
    if (dim > kMaxExtent)
      call.fail(what, " has an axis of ", dim, "; at most ", kMaxExtent, " are supported");
}

void need_shape(const Call& call, size_t i, std::string_view what, const Shape& shape) {
  if (call.shape(i) != shape)
    call.fail(what, " has shape ", call.shape(i).str(), "; it needs ", shape.str());
}

namespace {

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int shift = to.rank() - from.rank();
  bool fits = shift >= 0;
  for (int axis = 0; fits && axis < from.rank(); ++axis)
    fits = from[axis] == 1 || from[axis] == to[axis + shift];
  return fits;
}

}  // namespace

void need_broadcast(const Call& call, size_t i, std::string_view what, const Shape& to) {
  if (!broadcasts_to(call.shape(i), to))
    call.fail(what, " has shape ", call.shape(i).str(), ", which does not broadcast to ", to.str());
}

void need_within(const Call& call, std::string_view what, int64_t value, int64_t least,
                 int64_t most) {
  if (value < least || value > most)
    call.fail(what, " is ", value, "; it has to be in [", least, ", ", most, "]");
}

std::vector<double> numbers(const Call& call, size_t i, std::string_view what) {
  return call.constant(i, what).doubles();
}

std::vector<int64_t> integers(const Call& call, size_t i, std::string_view what) {
  return call.constant(i, what).integers();
}

double number(const Call& call, size_t i, std::string_view what) {
  const Array& array = call.constant(i, what);
  if (array.count() != 1) call.fail(what, " has ", array.count(), " values; it needs one");
  return array.at(0);
}

int64_t integer(const Call& call, size_t i, std::string_view what) {
  const std::vector<int64_t> values = integers(call, i, what);
  if (values.size() != 1) call.fail(what, " has ", values.size(), " values; it needs one");
  return values.front();
}

namespace {

template <class T>
double saturated_in(double value) {
  // 2^63 and 2^64 are doubles; the greatest integers below them are not.
  const double least = static_cast<double>(std::numeric_limits<T>::min());
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  return std::clamp(value, least, most);
}

}  // namespace

double saturated(ElementType type, double value) {
  if (is_float(type)) return value;
  if (std::isnan(value)) return 0;
  value = std::nearbyint(value);
  switch (type) {
    case TensorProto::UINT8:
      return saturated_in<uint8_t>(value);
    case TensorProto::INT8:
      return saturated_in<int8_t>(value);
    case TensorProto::UINT16:
      return saturated_in<uint16_t>(value);
    case TensorProto::INT16:
      return saturated_in<int16_t>(value);
    case TensorProto::UINT32:
      return saturated_in<uint32_t>(value);
    case TensorProto::INT32:
      return saturated_in<int32_t>(value);
    default:
      return value;
  }
}

double rounded_to(ElementType type, double value) {
  switch (type) {
    case TensorProto::FLOAT:
      return static_cast<float>(value);
    case TensorProto::FLOAT16:
      return static_cast<double>(static_cast<float>(float16(static_cast<float>(value))));
    case TensorProto::BFLOAT16:
      return static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(value))));
    default:
      return value;
  }
}

void softmax_line(ElementType type, std::span<double> line) {
  if (line.empty()) return;
  const bool rounds = element_size(type) == 2;
  const auto rounded = [&](double value) { return rounds ? rounded_to(type, value) : value; };
  double greatest = line.front();
  for (const double value : line) greatest = std::max(greatest, value);
  if (greatest == -std::numeric_limits<double>::infinity()) {
    std::fill(line.begin(), line.end(), 0.0);
    return;
  }
  double sum = 0;
  for (double& value : line) {
    value = rounded(std::exp(rounded(value - greatest)));
    // Sums of FLOAT16 have more bits until they are complete, sums of BFLOAT16 have not.
    sum = type == TensorProto::BFLOAT16 ? rounded(sum + value) : sum + value;
  }
  sum = rounded(sum);
  for (double& value : line) value = rounded(value / sum);
}

AxisView view_along(const Shape& shape, int axis) {
  return {shape.count(0, axis), shape[axis], shape.count(axis + 1)};
}

bool next_index(std::vector<int64_t>& index, std::span<const int64_t> dims) {
  for (size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < dims[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

std::vector<double> broadcast_to(const Call& call, std::string_view what,
                                 const std::vector<double>& values, const Shape& from,
                                 const Shape& to) {
  if (!broadcasts_to(from, to))
    call.fail(what, " has shape ", from.str(), ", which does not broadcast to ", to.str());
  std::vector<double> result;
  result.reserve(checked_count(call, to));
  for (const int64_t source : broadcast_sources(from, to))
    result.push_back(values[static_cast<size_t>(source)]);
  return result;
}

std::vector<uint64_t> order_keys(const Array& array, bool falling) {
  constexpr uint64_t kSign = uint64_t{1} << 63U;
  std::vector<uint64_t> keys;
  keys.reserve(static_cast<size_t>(array.count()));
  if (is_float(array.type())) {
    for (const double value : array.doubles()) {
      if (std::isnan(value)) {
        keys.push_back(~uint64_t{0});
        continue;
      }
      const auto bits = std::bit_cast<uint64_t>(value + 0.0);  // one zero
      const uint64_t key = (bits & kSign) != 0 ? ~bits : bits | kSign;
      keys.push_back(falling ? ~key : key);
    }
    return keys;
  }
  const uint64_t flip = array.type() == TensorProto::UINT64 ? 0 : kSign;
  for (const int64_t value : array.integers()) {
    const uint64_t key = static_cast<uint64_t>(value) ^ flip;
    keys.push_back(falling ? ~key : key);
  }
  return keys;
}

}  // namespace crema::onnx
