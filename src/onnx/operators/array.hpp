// Array: a tensor of an ONNX file in memory of the host. Constants are folded with arrays, and the
// layer OnnxOperator computes with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "crema/layout.hpp"
#include "crema/shape.hpp"
#include "proto/onnx/onnx.pb.h"

namespace crema::onnx {

using ElementType = TensorProto::DataType;

/// Such as "FLOAT"; "type 77" for an unknown number.
std::string type_name(int type);
/// FLOAT, DOUBLE, FLOAT16 or BFLOAT16.
bool is_float(ElementType type);
/// Signed and unsigned integers of 8 to 64 bits. BOOL is none.
bool is_integer(ElementType type);
bool is_unsigned(ElementType type);
/// Whether arrays have the type: floats, integers, and BOOL.
bool is_supported(ElementType type);
/// Bytes of an element. Error unless is_supported().
size_t element_size(ElementType type);

/// The number of elements of an array of this shape. Error for a shape that arrays do not have:
/// above 2^31 elements or 64 axes.
int64_t checked_count(const Shape& shape);

/// Contiguous, of a type that is_supported(). Copies share the values, which nothing changes.
/// BOOL elements are bytes of 0 or 1.
class Array {
 public:
  /// A FLOAT array of shape 0.
  Array();
  /// The bytes in the order of the host. Error unless they are as many as type and shape need.
  Array(ElementType type, Shape shape, std::vector<std::byte> bytes);
  /// Zeros.
  Array(ElementType type, Shape shape);

  /// Rounded to the type as a cast of C++ does: to the nearest float; integers lose their fraction.
  /// Integers that do not fit wrap around.
  static Array of_doubles(ElementType type, Shape shape, std::span<const double> values);
  /// The same; integers that do not fit the type wrap around. UINT64 takes the bits.
  static Array of_integers(ElementType type, Shape shape, std::span<const int64_t> values);
  /// A vector, or with `scalar` a scalar, of INT64.
  static Array of_indices(std::span<const int64_t> values);
  static Array scalar(ElementType type, double value);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  std::span<const std::byte> bytes() const { return *bytes_; }
  /// The elements. T has to have the size of an element; float16 and bfloat16 of crema/layout.hpp
  /// stand for FLOAT16 and BFLOAT16, uint8_t for BOOL.
  template <class T>
  std::span<const T> values() const {
    if (sizeof(T) != element_size(type_))
      throw Error("an array of ", type_name(type_), " is read as elements of ", sizeof(T),
                  " bytes");
    return {reinterpret_cast<const T*>(bytes_->data()), static_cast<size_t>(count())};
  }
  std::vector<double> doubles() const;
  /// Of integers and BOOL; UINT64 as its bits. Error for floats.
  std::vector<int64_t> integers() const;
  /// Element `index` of any type.
  double at(int64_t index) const;

  /// The same values in another shape of as many elements.
  Array reshaped(Shape shape) const;
  /// Element i of the result is element sources[i], or 0 where that is -1.
  Array taken(Shape shape, std::span<const int64_t> sources) const;
  /// Every element converted as a cast of C++ does; to BOOL: whether it is not 0; NaN and numbers
  /// that do not fit an integer type give its nearest number (NaN: 0).
  Array cast(ElementType type) const;

 private:
  ElementType type_ = TensorProto::FLOAT;
  Shape shape_{0};
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

/// The values of the message, wherever they lie in it; not of another file. Error for another
/// number of values than its dimensions say, for strings, complex numbers and sub-byte types, and
/// for sizes that overflow.
Array array_of(const TensorProto& message);
/// With raw_data.
TensorProto message_of(const Array& array, std::string_view name);

/// Strides of a contiguous array, in elements.
std::vector<int64_t> strides_of(const Shape& shape);
/// The shape that both broadcast to, as numpy does. Error that names both if there is none.
Shape broadcast(const Shape& a, const Shape& b);
/// For each element of `to`, the index in an array of shape `from` that broadcasts to it.
std::vector<int64_t> broadcast_sources(const Shape& from, const Shape& to);

}  // namespace crema::onnx
