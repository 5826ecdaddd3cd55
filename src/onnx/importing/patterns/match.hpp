// What patterns look for in a graph.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/importing/attributes.hpp"
#include "onnx/importing/graph.hpp"

namespace crema::onnx {

/// The node that makes the value, if it is that operator of ONNX; else null.
Node* maker_of(const Value* value, std::string_view op);
/// The same, if nothing else reads the value.
Node* sole_maker_of(const Graph& graph, const Value* value, std::string_view op);
/// The same for a layer.
Node* sole_layer_of(const Graph& graph, const Value* value, std::string_view type);

/// The number, if the value is a constant with one element.
std::optional<double> number_of(const Value* value);
/// Whether the number of a model is `exact`, up to the rounding of floats: of 32 bits or, of it or
/// its reciprocal, of 16 bits.
bool is_near(double number, double exact);

/// A value and a number that is added to it or that it is multiplied by.
struct WithNumber {
  Value* value = nullptr;
  double number = 0;
};
/// value + number: Add and Sub. The result has the shape of the value.
std::optional<WithNumber> as_shift(const Node* node);
/// value * number: Mul and Div.
std::optional<WithNumber> as_scale(const Node* node);
/// value ^ number: Pow, and products of a value with itself.
std::optional<WithNumber> as_power(const Node* node);

/// Factors of a product of values and numbers, through Mul and Div nodes whose results nothing else
/// reads.
struct Product {
  double number = 1;
  std::vector<Value*> factors;
};
Product product_of(const Graph& graph, const Node& node);
Product product_of(const Graph& graph, Value* value);

/// Axes of a mean that keeps them with size 1, of ReduceMean or GlobalAveragePool, counted from the
/// front; empty if the node is something else.
std::vector<int> kept_mean_axes(const Node* node);
/// Whether the axes are the last ones of `rank`.
bool are_last(const std::vector<int>& axes, int rank);

/// The other operand of a node of two; null if `value` is none of them.
Value* other_operand(const Node& node, const Value* value);

/// A constant like `value`, in another shape of as many elements.
Value& reshaped_constant(Graph& graph, const Value& value, const Shape& shape);
/// A constant with the two axes of `value` exchanged.
Value& transposed_constant(Graph& graph, const Value& value);
/// INT64 constants.
Value& index_constant(Graph& graph, std::string_view name, const std::vector<int64_t>& values);

/// Whether a constant of shape `shape` has one number for each element of the last axes `tail` of
/// what it is broadcast to, and not more.
bool covers_tail(const Shape& shape, const Shape& tail);
/// Whether it has one number for each channel (axis 1) of a tensor of shape `x`.
bool covers_channels(const Shape& shape, const Shape& x);

}  // namespace crema::onnx
