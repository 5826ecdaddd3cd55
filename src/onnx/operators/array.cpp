#include "onnx/operators/array.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace crema::onnx {

static_assert(std::endian::native == std::endian::little, "raw_data of ONNX is little endian");

namespace {

// A larger array would not be made by a net that computes on one host.
constexpr int64_t kMaxElements = int64_t{1} << 31;
constexpr int kMaxRank = 64;

// Calls `body` with a value of the C++ type of the elements; uint8_t for BOOL.
template <class Body>
auto with_element(ElementType type, const Body& body) {
  switch (type) {
    case TensorProto::FLOAT:
      return body(float{});
    case TensorProto::DOUBLE:
      return body(double{});
    case TensorProto::FLOAT16:
      return body(float16{});
    case TensorProto::BFLOAT16:
      return body(bfloat16{});
    case TensorProto::INT8:
      return body(int8_t{});
    case TensorProto::INT16:
      return body(int16_t{});
    case TensorProto::INT32:
      return body(int32_t{});
    case TensorProto::INT64:
      return body(int64_t{});
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      return body(uint8_t{});
    case TensorProto::UINT16:
      return body(uint16_t{});
    case TensorProto::UINT32:
      return body(uint32_t{});
    case TensorProto::UINT64:
      return body(uint64_t{});
    default:
      throw Error("values of type ", type_name(type), " are not supported");
  }
}

template <class T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// To float so that rounding that again, to 16 bits, gives what rounding once would: what is lost
// shows in the last bit.
float rounded_to_odd(double value) {
  const float near = static_cast<float>(value);
  if (!std::isfinite(value) || static_cast<double>(near) == value) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::abs(static_cast<double>(near)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

template <class T>
T saturated(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return T{0};
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T float_of(double value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return T(rounded_to_odd(value));
  } else {
    return static_cast<T>(value);
  }
}

// Room for an array, and its elements.
template <class T>
struct NewValues {
  std::vector<std::byte> bytes;
  T* values;
  explicit NewValues(int64_t count)
      : bytes(static_cast<size_t>(count) * sizeof(T)), values(reinterpret_cast<T*>(bytes.data())) {}
};

void need_count(const Shape& shape, size_t count) {
  if (checked_count(shape) != static_cast<int64_t>(count))
    throw Error("an array of shape ", shape.str(), " has ", shape.count(), " elements, not ",
                count);
}

// BOOL elements of files may be bytes other than 0 and 1.
void make_bools(std::vector<std::byte>& bytes) {
  for (std::byte& byte : bytes) byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
}

}  // namespace

int64_t checked_count(const Shape& shape) {
  if (shape.rank() > kMaxRank)
    throw Error("an array has ", shape.rank(), " axes; ", kMaxRank, " are supported");
  const int64_t count = shape.count();
  // Beside an axis of size 0, another one could be of any size.
  const auto too_large = [](int64_t dim) { return dim > kMaxElements; };
  if (count > kMaxElements || std::any_of(shape.dims().begin(), shape.dims().end(), too_large))
    throw Error("an array has shape ", shape.str(), "; up to ", kMaxElements,
                " elements are supported");
  return count;
}

std::string type_name(int type) {
  if (!TensorProto::DataType_IsValid(type)) return text("type ", type);
  return TensorProto::DataType_Name(static_cast<ElementType>(type));
}

bool is_float(ElementType type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE ||
         type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16;
}

bool is_unsigned(ElementType type) {
  return type == TensorProto::UINT8 || type == TensorProto::UINT16 || type == TensorProto::UINT32 ||
         type == TensorProto::UINT64;
}

bool is_integer(ElementType type) {
  return type == TensorProto::INT8 || type == TensorProto::INT16 || type == TensorProto::INT32 ||
         type == TensorProto::INT64 || is_unsigned(type);
}

bool is_supported(ElementType type) {
  return is_float(type) || is_integer(type) || type == TensorProto::BOOL;
}

size_t element_size(ElementType type) {
  return with_element(type, [](auto zero) { return sizeof(zero); });
}

Array::Array() : bytes_(std::make_shared<const std::vector<std::byte>>()) {}

Array::Array(ElementType type, Shape shape, std::vector<std::byte> bytes)
    : type_(type), shape_(std::move(shape)) {
  const auto needed = static_cast<size_t>(checked_count(shape_)) * element_size(type_);
  if (bytes.size() != needed)
    throw Error("an array of ", type_name(type_), " of shape ", shape_.str(), " takes ", needed,
                " bytes, not ", bytes.size());
  if (type_ == TensorProto::BOOL) make_bools(bytes);
  bytes_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

Array::Array(ElementType type, Shape shape) : type_(type), shape_(std::move(shape)) {
  const auto size = static_cast<size_t>(checked_count(shape_)) * element_size(type_);
  bytes_ = std::make_shared<const std::vector<std::byte>>(size);
}

Array Array::of_doubles(ElementType type, Shape shape, std::span<const double> values) {
  need_count(shape, values.size());
  return with_element(type, [&](auto zero) {
    using T = decltype(zero);
    NewValues<T> made(static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (kIsFloat<T>) {
        made.values[i] = float_of<T>(values[i]);
      } else if (type == TensorProto::BOOL) {
        made.values[i] = static_cast<T>(values[i] != 0);
      } else if constexpr (std::is_same_v<T, uint64_t>) {
        made.values[i] =
            values[i] < 0 ? static_cast<T>(saturated<int64_t>(values[i])) : saturated<T>(values[i]);
      } else {
        made.values[i] = static_cast<T>(saturated<int64_t>(values[i]));
      }
    }
    return Array(type, std::move(shape), std::move(made.bytes));
  });
}

Array Array::of_integers(ElementType type, Shape shape, std::span<const int64_t> values) {
  need_count(shape, values.size());
  return with_element(type, [&](auto zero) {
    using T = decltype(zero);
    NewValues<T> made(static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
        made.values[i] = float_of<T>(static_cast<double>(values[i]));
      } else if (type == TensorProto::BOOL) {
        made.values[i] = static_cast<T>(values[i] != 0);
      } else {
        made.values[i] = static_cast<T>(values[i]);
      }
    }
    return Array(type, std::move(shape), std::move(made.bytes));
  });
}

Array Array::of_indices(std::span<const int64_t> values) {
  return of_integers(TensorProto::INT64, {static_cast<int64_t>(values.size())}, values);
}

Array Array::scalar(ElementType type, double value) {
  return of_doubles(type, Shape{}, {&value, 1});
}

std::vector<double> Array::doubles() const {
  return with_element(type_, [&](auto zero) {
    const auto elements = values<decltype(zero)>();
    std::vector<double> result(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) result[i] = as_double(elements[i]);
    return result;
  });
}

std::vector<int64_t> Array::integers() const {
  if (is_float(type_))
    throw Error("an array of ", type_name(type_), " stands where integers are needed");
  return with_element(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto elements = values<T>();
    std::vector<int64_t> result(elements.size());
    if constexpr (!kIsFloat<T>) {
      for (size_t i = 0; i < elements.size(); ++i) result[i] = static_cast<int64_t>(elements[i]);
    }
    return result;
  });
}

double Array::at(int64_t index) const {
  if (index < 0 || index >= count())
    throw Error("element ", index, " is outside an array of shape ", shape_.str());
  return with_element(type_, [&](auto zero) {
    return as_double(values<decltype(zero)>()[static_cast<size_t>(index)]);
  });
}

Array Array::reshaped(Shape shape) const {
  if (checked_count(shape) != count())
    throw Error("an array of shape ", shape_.str(), " has ", count(), " elements; shape ",
                shape.str(), " has ", shape.count());
  Array result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Array Array::taken(Shape shape, std::span<const int64_t> sources) const {
  need_count(shape, sources.size());
  const int64_t elements = count();
  return with_element(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = values<T>();
    NewValues<T> made(static_cast<int64_t>(sources.size()));
    for (size_t i = 0; i < sources.size(); ++i) {
      const int64_t source = sources[i];
      if (source < -1 || source >= elements)
        throw Error("element ", source, " is outside an array of shape ", shape_.str());
      if (source >= 0) made.values[i] = from[static_cast<size_t>(source)];
    }
    return Array(type_, std::move(shape), std::move(made.bytes));
  });
}

Array Array::cast(ElementType type) const {
  if (type == type_) return *this;
  return with_element(type_, [&](auto from_zero) {
    using From = decltype(from_zero);
    const auto from = values<From>();
    return with_element(type, [&](auto to_zero) {
      using To = decltype(to_zero);
      NewValues<To> made(count());
      for (size_t i = 0; i < from.size(); ++i) {
        if (type == TensorProto::BOOL) {
          made.values[i] = To(as_double(from[i]) != 0 ? 1 : 0);
        } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
          made.values[i] = static_cast<To>(from[i]);
        } else if constexpr (std::is_integral_v<To>) {
          made.values[i] = saturated<To>(as_double(from[i]));
        } else if constexpr (std::is_same_v<From, int64_t> || std::is_same_v<From, uint64_t>) {
          // Not by way of double, which would round twice.
          if constexpr (std::is_floating_point_v<To>) {
            made.values[i] = static_cast<To>(from[i]);
          } else {
            made.values[i] = float_of<To>(as_double(from[i]));
          }
        } else {
          made.values[i] = float_of<To>(as_double(from[i]));
        }
      }
      return Array(type, shape_, std::move(made.bytes));
    });
  });
}

namespace {

template <class T, class Field>
std::vector<std::byte> bytes_of_field(const Field& field) {
  NewValues<T> made(field.size());
  for (int i = 0; i < field.size(); ++i) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      made.values[i].bits = static_cast<uint16_t>(field.Get(i));
    } else {
      made.values[i] = static_cast<T>(field.Get(i));
    }
  }
  return std::move(made.bytes);
}

std::vector<std::byte> typed_bytes(ElementType type, const TensorProto& message) {
  switch (type) {
    case TensorProto::FLOAT:
      return bytes_of_field<float>(message.float_data());
    case TensorProto::DOUBLE:
      return bytes_of_field<double>(message.double_data());
    case TensorProto::INT64:
      return bytes_of_field<int64_t>(message.int64_data());
    case TensorProto::UINT32:
      return bytes_of_field<uint32_t>(message.uint64_data());
    case TensorProto::UINT64:
      return bytes_of_field<uint64_t>(message.uint64_data());
    default:
      return with_element(
          type, [&](auto zero) { return bytes_of_field<decltype(zero)>(message.int32_data()); });
  }
}

std::string tensor_title(const TensorProto& message) {
  return message.name().empty() ? std::string("a tensor") : text("tensor '", message.name(), "'");
}

}  // namespace

Array array_of(const TensorProto& message) {
  const std::string title = tensor_title(message);
  if (!TensorProto::DataType_IsValid(message.data_type()) ||
      !is_supported(static_cast<ElementType>(message.data_type())))
    throw Error(title, " has values of ", type_name(message.data_type()),
                "; floats of 16 to 64 bits, integers of 8 to 64 bits and BOOL are supported");
  const auto type = static_cast<ElementType>(message.data_type());
  if (message.data_location() == TensorProto::EXTERNAL)
    throw Error(title, " has its values in another file; read the model from its file");
  if (message.has_segment()) throw Error(title, " is a segment of a tensor; store it as one");
  if (message.dims_size() > kMaxRank)
    throw Error(title, " has ", message.dims_size(), " axes; ", kMaxRank, " are supported");
  for (const int64_t dim : message.dims()) {
    if (dim < 0) throw Error(title, " has a dimension of ", dim);
  }
  try {
    Shape shape(std::vector<int64_t>(message.dims().begin(), message.dims().end()));
    const auto needed = static_cast<size_t>(checked_count(shape)) * element_size(type);
    const std::string& raw = message.raw_data();
    const auto typed = typed_bytes(type, message);
    if (!raw.empty() && !typed.empty()) throw Error("the values are there twice");
    if (raw.size() + typed.size() != needed)
      throw Error("shape ", shape.str(), " of ", type_name(type), " takes ", needed, " bytes, ",
                  raw.size() + typed.size(), " are there");
    if (raw.empty()) return Array(type, std::move(shape), typed);
    std::vector<std::byte> bytes(raw.size());
    std::memcpy(bytes.data(), raw.data(), raw.size());
    return Array(type, std::move(shape), std::move(bytes));
  } catch (const Error& error) {
    throw Error(title, ": ", error.message());
  }
}

TensorProto message_of(const Array& array, std::string_view name) {
  TensorProto message;
  message.set_name(std::string(name));
  message.set_data_type(array.type());
  for (const int64_t dim : array.shape().dims()) message.add_dims(dim);
  const auto bytes = array.bytes();
  message.set_raw_data(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return message;
}

std::vector<int64_t> strides_of(const Shape& shape) {
  shape.count();  // refuses sizes that overflow
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()), 1);
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    const auto k = static_cast<size_t>(axis);
    // Behind a dimension of 0, sizes may overflow; nothing is read there.
    if (__builtin_mul_overflow(strides[k + 1], shape[axis + 1], &strides[k])) strides[k] = 0;
  }
  return strides;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank());
    const int in_b = axis - (rank - b.rank());
    const int64_t dim_a = in_a < 0 ? 1 : a[in_a];
    const int64_t dim_b = in_b < 0 ? 1 : b[in_b];
    if (dim_a != dim_b && dim_a != 1 && dim_b != 1)
      throw Error("shapes ", a.str(), " and ", b.str(), " do not broadcast: ", dim_a, " and ",
                  dim_b, " differ, and neither is 1");
    dims[static_cast<size_t>(axis)] = dim_a == 1 ? dim_b : dim_a;
  }
  return Shape(std::move(dims));
}

std::vector<int64_t> broadcast_sources(const Shape& from, const Shape& to) {
  if (broadcast(from, to) != to)
    throw Error("shape ", from.str(), " does not broadcast to ", to.str());
  const int64_t count = checked_count(to);
  if (count == 0) return {};
  std::vector<int64_t> sources{0};
  sources.reserve(static_cast<size_t>(count));
  const std::vector<int64_t> strides = strides_of(from);
  const int behind = to.rank() - from.rank();
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int in = axis - behind;
    const int64_t stride = in < 0 || from[in] == 1 ? 0 : strides[static_cast<size_t>(in)];
    const int64_t dim = to[axis];
    if (dim == 1) continue;
    std::vector<int64_t> next;
    next.reserve(sources.size() * static_cast<size_t>(dim));
    for (const int64_t source : sources) {
      for (int64_t i = 0; i < dim; ++i) next.push_back(source + i * stride);
    }
    sources = std::move(next);
  }
  return sources;
}

}  // namespace crema::onnx
