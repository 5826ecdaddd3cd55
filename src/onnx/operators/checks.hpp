// What operators ask of their inputs, and walks over arrays that several of them take. A model may
// be hostile: sizes are checked here before memory is taken or numbers are multiplied.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

/// The greatest extent of an axis, a kernel, a stride or a pad. Products of two fit 64 bits.
inline constexpr int64_t kMaxExtent = int64_t{1} << 31;

/// Elements of `shape`. Error for more than 2^31.
size_t checked_count(const Call& call, const Shape& shape);
/// Error unless input i has `least` to `most` axes, none longer than kMaxExtent. `what` names the
/// input in messages.
void need_rank(const Call& call, size_t i, std::string_view what, int least, int most);
/// Error unless input i has that shape.
void need_shape(const Call& call, size_t i, std::string_view what, const Shape& shape);
/// Error unless input i broadcasts to that shape, as numpy does, without making it greater.
void need_broadcast(const Call& call, size_t i, std::string_view what, const Shape& to);
/// Error unless `value` is in [least, most].
void need_within(const Call& call, std::string_view what, int64_t value, int64_t least,
                 int64_t most = kMaxExtent);

/// The values of input i, which have to be known.
std::vector<double> numbers(const Call& call, size_t i, std::string_view what);
std::vector<int64_t> integers(const Call& call, size_t i, std::string_view what);
/// The only value of input i.
double number(const Call& call, size_t i, std::string_view what);
int64_t integer(const Call& call, size_t i, std::string_view what);

/// The nearest number of an integer type, half to even, and its limit beyond it; NaN gives 0.
/// Numbers of other types stay.
double saturated(ElementType type, double value);
/// `value` as the float type has it; 64-bit floats and integers stay.
double rounded_to(ElementType type, double value);

/// Makes the values their softmax; all -infinity gives 0. In types of 16 bits, each step is
/// rounded, as where the operator is made of others.
void softmax_line(ElementType type, std::span<double> line);

/// An array seen along one axis: element k of line (o, i) has the index (o * size + k) * inner + i.
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView view_along(const Shape& shape, int axis);

/// The next index of an array with these dimensions, the last axis fastest. False behind the last
/// one; the index is all zero then.
bool next_index(std::vector<int64_t>& index, std::span<const int64_t> dims);

/// `values` of shape `from`, broadcast to `to` as numpy does. Error, naming `what`, if they do not.
std::vector<double> broadcast_to(const Call& call, std::string_view what,
                                 const std::vector<double>& values, const Shape& from,
                                 const Shape& to);

/// Keys whose order as unsigned numbers is that of the elements, NaN above all. With `falling`, the
/// smallest element has the greatest key; NaN stays above all.
std::vector<uint64_t> order_keys(const Array& array, bool falling);

}  // namespace crema::onnx
