// Pad in front of convolutions and pooling.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

struct SpatialPads {
  std::vector<int64_t> begin, end;
  double value = 0;
};

// The pads of a Pad node of constant values that leaves batch and channels as they are.
std::optional<SpatialPads> spatial_pads_of(const Node& node) {
  const Call call = node.call();
  if (call.get_string("mode", "constant") != "constant") return std::nullopt;
  const int rank = node.input(0)->shape().rank();
  if (node.opset >= 11 && !call.is_constant(1)) return std::nullopt;
  if (call.has(2) && !number_of(node.input(2))) return std::nullopt;
  if (call.has(3) && !call.is_constant(3)) return std::nullopt;
  const auto pads = call.ints_of("pads", 1, 11);
  std::vector<int64_t> axes;
  if (call.has(3)) axes = call.constant(3, "axes").integers();
  for (int axis = 0; axis < rank && !call.has(3); ++axis) axes.push_back(axis);
  if (!pads || pads->size() != 2 * axes.size() || rank < 3) return std::nullopt;
  const auto spatial = static_cast<size_t>(rank - 2);
  SpatialPads result{std::vector<int64_t>(spatial, 0), std::vector<int64_t>(spatial, 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.canonical(axes[i], rank);
    const int64_t begin = (*pads)[i], end = (*pads)[axes.size() + i];
    if (begin < 0 || end < 0 || (axis < 2 && (begin != 0 || end != 0))) return std::nullopt;
    if (axis < 2) continue;
    result.begin[static_cast<size_t>(axis - 2)] = begin;
    result.end[static_cast<size_t>(axis - 2)] = end;
  }
  result.value =
      node.opset < 11 ? call.get_float("value", 0) : number_of(node.input(2)).value_or(0);
  return result;
}

bool is_not_negative(const Value& value) {
  for (const char* op : {"Relu", "Sigmoid", "Abs", "Exp"}) {
    if (maker_of(&value, op) != nullptr) return true;
  }
  const Node* const clip = maker_of(&value, "Clip");
  return clip != nullptr && clip->opset >= 11 && number_of(clip->input(1)).value_or(-1) >= 0;
}

bool has_no_pads(const std::vector<int64_t>& pads) {
  return std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; });
}

}  // namespace

bool join_pad(Graph& graph, Node& node) {
  const bool is_conv = node.is("Conv"), is_max = node.is("MaxPool");
  if (!is_conv && !is_max && !node.is("AveragePool")) return false;
  const Node* const pad = sole_maker_of(graph, node.input(0), "Pad");
  if (pad == nullptr) return false;
  const auto added = spatial_pads_of(*pad);
  if (!added) return false;
  const size_t axes = added->begin.size();
  const Call call = node.call();
  const std::string mode = call.get_string("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID") return false;
  std::vector<int64_t> pads(2 * axes, 0);
  if (mode == "NOTSET") pads = call.get_ints("pads", pads);
  if (pads.size() != 2 * axes) return false;
  if (!is_conv && call.get_int("ceil_mode", 0) != 0) return false;
  if (is_max) {
    // A window has an element of the map, which is greater than what is added.
    const std::vector<int64_t> kernel = call.get_ints("kernel_shape");
    if (kernel.size() != axes || node.outputs.size() > 1) return false;
    const bool is_least =
        added->value < -1e30 || (added->value == 0 && is_not_negative(*pad->input(0)));
    if (!is_least) return false;
    for (size_t i = 0; i < axes; ++i) {
      if (std::max(added->begin[i] + pads[i], added->end[i] + pads[axes + i]) >= kernel[i])
        return false;
    }
  } else if (added->value != 0) {
    return false;
  }
  if (node.is("AveragePool")) {
    if (!has_no_pads(pads) && call.get_int("count_include_pad", 0) == 0) return false;
    set_attribute(node.message, int_attribute("count_include_pad", 1));
  }
  for (size_t i = 0; i < axes; ++i) {
    pads[i] += added->begin[i];
    pads[axes + i] += added->end[i];
  }
  remove_attribute(node.message, "auto_pad");
  set_attribute(node.message, ints_attribute("pads", pads));
  graph.set_input(node, 0, pad->input(0));
  return true;
}

}  // namespace crema::onnx
