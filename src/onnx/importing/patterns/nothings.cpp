// Nodes that give their input.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

bool is_forward_slice(const Node& node) {
  if (node.opset < 10 || node.input(4) == nullptr) return true;
  if (!node.input(4)->is_constant()) return false;
  const std::vector<int64_t> steps = node.input(4)->values().integers();
  return std::ranges::all_of(steps, [](int64_t step) { return step > 0; });
}

// Whether a Slice that takes all of the present batch takes all of any.
bool takes_any_batch(const Graph& graph, const Node& slice) {
  if (!graph.has_open_batch()) return true;
  const Call call = slice.call();
  for (size_t i = 1; i < slice.inputs.size(); ++i) {
    if (call.has(i) && !call.is_constant(i)) return false;
  }
  const auto starts = call.ints_of("starts", 1, 10), ends = call.ints_of("ends", 2, 10);
  const auto axes = call.ints_of("axes", 3, 10), steps = call.ints_of("steps", 4, 10);
  if (!starts || !ends) return false;
  const Shape& x = slice.input(0)->shape();
  for (size_t i = 0; i < std::min(starts->size(), ends->size()); ++i) {
    const int64_t axis = axes && i < axes->size() ? (*axes)[i] : static_cast<int64_t>(i);
    if (call.canonical(axis, x.rank()) != 0) continue;
    const bool skips = steps && i < steps->size() && (*steps)[i] != 1;
    if ((*starts)[i] != 0 || (*ends)[i] <= x[0] || skips) return false;
  }
  return true;
}

bool is_sorted_transpose(const Node& node) {
  const Call call = node.call();
  if (!call.has_attribute("perm")) return node.input(0)->shape().rank() < 2;
  return std::ranges::is_sorted(call.get_ints("perm"));
}

// A cast between floats. What leaves the model keeps the rounding to 16 bits.
bool is_float_cast(const Node& node, const Value& x, const Value& y) {
  if (!node.is("Cast") && !node.is("CastLike")) return false;
  if (!is_float(x.type()) || !is_float(y.type())) return false;
  const bool widens = y.type() == TensorProto::FLOAT || y.type() == TensorProto::DOUBLE;
  return x.type() == y.type() || !y.is_output || (widens && x.type() != TensorProto::DOUBLE);
}

bool gives_its_input(const Graph& graph, const Node& node, const Value& x, const Value& y) {
  // Of the operators that follow, sums and products alone may have their input behind a constant.
  const bool is_first = &x == node.input(0);
  const bool commutes = node.is("Add") || node.is("Mul");
  if (!is_first && !commutes) return false;
  if (node.is("Identity") || is_float_cast(node, x, y)) return true;
  if (x.shape() != y.shape() || x.type() != y.type()) return false;
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"}) {
    if (node.is(op)) return true;
  }
  if (node.is("Transpose")) return is_sorted_transpose(node);
  if (node.is("Slice")) return is_forward_slice(node) && takes_any_batch(graph, node);
  if (node.is("Concat") || node.is("Sum") || node.is("Mean") || node.is("Max") || node.is("Min"))
    return node.inputs.size() == 1;
  if (node.is("Add") || node.is("Sub")) {
    const auto shift = as_shift(&node);
    return shift && shift->value == &x && shift->number == 0;
  }
  if (node.is("Mul") || node.is("Div")) {
    const auto scale = as_scale(&node);
    return scale && scale->value == &x && scale->number == 1;
  }
  return false;
}

}  // namespace

bool drop_nothing(Graph& graph, Node& node) {
  Value* const y = node.output();
  if (y == nullptr || node.outputs.size() != 1) return false;
  for (Value* x : node.inputs) {
    if (x == nullptr || x->is_constant()) continue;
    if (!gives_its_input(graph, node, *x, *y)) return false;
    const bool was_wanted = graph.is_wanted(*y);
    graph.replace(*y, *x);
    return was_wanted && !graph.is_wanted(*y);
  }
  return false;
}

}  // namespace crema::onnx
