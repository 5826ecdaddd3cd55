// Operators that move values or give them another shape.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

void import_identity(const Node& node, LayerWriter& writer) {
  writer.alias(*node.input(0), *node.output());
}

void import_reshape(const Node& node, LayerWriter& writer) {
  const Shape &in = node.input(0)->shape(), &out = node.output()->shape();
  if (in == out) return import_identity(node, writer);
  add_reshape(node, writer, node.input(0), in, node.output(), out);
}

// Squeeze and Unsqueeze. Where the batch is open, it need not be in front: the axes in front of
// those that come or go stay as they are, and behind them, the first one of the size of the batch
// takes what is left.
void import_squeeze(const Node& node, LayerWriter& writer) {
  const Shape &in = node.input(0)->shape(), &out = node.output()->shape();
  const auto batch = writer.graph().open_batch();
  const bool adds = node.is("Unsqueeze");
  const Call call = node.call();
  const auto given = call.ints_of("axes", 1, 13);
  if (!batch || !given || given->empty() || out.rank() == 0 || out.count() == 0)
    return import_reshape(node, writer);
  std::vector<int> axes = call.canonical(*given, adds ? out.rank() : in.rank());
  const int first = std::ranges::min(axes);
  if (first > 0 && out.rank() == 2 && !adds) return import_reshape(node, writer);  // a Flatten
  BlobShape& shape = *writer.add(node, "Reshape", {node.input(0)}, {node.output()})
                          .mutable_reshape_param()
                          ->mutable_shape();
  bool has_rest = false;
  for (int axis = 0; axis < out.rank(); ++axis) {
    const bool is_new = adds && std::ranges::count(axes, axis) > 0;
    if (axis < first) {
      shape.add_dim(axis == 0 || out[axis] == *batch ? 0 : out[axis]);
    } else if (!is_new && !has_rest && out[axis] == *batch) {
      shape.add_dim(-1);
      has_rest = true;
    } else {
      shape.add_dim(out[axis]);
    }
  }
}

// Blobs hold the numbers of all types as floats, so that most casts change nothing.
void import_cast(const Node& node, LayerWriter& writer) {
  const ElementType from = node.input(0)->type(), to = node.output()->type();
  const bool from_whole = is_integer(from) || from == TensorProto::BOOL;
  const bool keeps = from == to || (from_whole && is_float(to)) ||
                     (from_whole && (to == TensorProto::INT32 || to == TensorProto::INT64)) ||
                     (is_float(from) && (to == TensorProto::FLOAT || to == TensorProto::DOUBLE));
  // Between layers, numbers of 16 bits have those of f32.
  const bool is_inner = is_float(from) && is_float(to) && !node.output()->is_output;
  if (!keeps && !is_inner) give_up("a cast that changes values");
  import_identity(node, writer);
}

void import_transpose(const Node& node, LayerWriter& writer) {
  const int rank = node.input(0)->shape().rank();
  std::vector<int64_t> order;
  for (int axis = rank - 1; axis >= 0; --axis) order.push_back(axis);
  order = node.call().get_ints("perm", order);
  if (std::ranges::is_sorted(order)) return import_identity(node, writer);
  PermuteParameter& settings =
      *writer.add(node, "Permute", {node.input(0)}, {node.output()}).mutable_permute_param();
  for (const int64_t axis : order) settings.add_order(as_setting(axis));
}

void import_expand(const Node& node, LayerWriter& writer) {
  const Shape &in = node.input(0)->shape(), &out = node.output()->shape();
  if (in == out) return import_identity(node, writer);
  ExpandParameter& settings =
      *writer.add(node, "Expand", {node.input(0)}, {node.output()}).mutable_expand_param();
  const int added = out.rank() - in.rank();
  for (int axis = 0; axis < out.rank(); ++axis)
    settings.add_dim(axis >= added && in[axis - added] == out[axis] ? -1 : out[axis]);
}

void import_tile(const Node& node, LayerWriter& writer) {
  const Shape &in = node.input(0)->shape(), &out = node.output()->shape();
  if (in.count() == 0 || out.count() == 0) give_up("an empty tensor");
  std::vector<int> axes;
  for (int axis = 0; axis < in.rank(); ++axis) {
    if (in[axis] != out[axis]) axes.push_back(axis);
  }
  if (axes.empty()) return import_identity(node, writer);
  LayerEnd from(node.input(0));
  for (const int axis : axes) {
    const bool is_last = axis == axes.back();
    const std::string step = is_last ? std::string() : text("axis", axis);
    const std::string inner = is_last ? std::string() : writer.inner_blob(node, step);
    LayerParameter& layer = writer.add(node, "Tile", {from},
                                       {is_last ? LayerEnd(node.output()) : LayerEnd(inner)}, step);
    layer.mutable_tile_param()->set_axis(axis);
    layer.mutable_tile_param()->set_tiles(static_cast<int32_t>(as_setting(out[axis] / in[axis])));
    from = LayerEnd(inner);
  }
}

void import_concat(const Node& node, LayerWriter& writer) {
  std::vector<LayerEnd> bottoms;
  const Value* only = nullptr;
  for (const Value* input : node.inputs) {
    if (input == nullptr || input->shape().count() == 0) continue;
    bottoms.emplace_back(input);
    only = input;
  }
  if (bottoms.empty()) give_up("empty tensors");
  if (bottoms.size() == 1) return writer.alias(*only, *node.output());
  const Call call = node.call();
  const int axis = call.canonical(call.need_int("axis"), node.output()->shape().rank());
  LayerParameter& layer = writer.add(node, "Concat", bottoms, {node.output()});
  layer.mutable_concat_param()->set_axis(axis);
}

// Reorg moves blocks of pixels to channels with the channel outermost, as mode CRD does; in mode
// DCR, SpaceToDepth has it innermost.
void import_pixel_shuffle(const Node& node, LayerWriter& writer) {
  const Call call = node.call();
  const auto side = as_setting(call.need_int("blocksize"));
  const bool is_first = call.get_string("mode", "DCR") == "CRD";
  if (node.op() == "SpaceToDepth" && !is_first) {
    const std::string blocks = writer.inner_blob(node, "blocks");
    ReorgParameter& reorg =
        *writer.add(node, "Reorg", {node.input(0)}, {blocks}, "blocks").mutable_reorg_param();
    reorg.set_stride(side);
    reorg.set_order(ReorgParameter::CHANNEL_FIRST);
    writer.add(node, "ShuffleChannel", {blocks}, {node.output()})
        .mutable_shuffle_channel_param()
        ->set_group(as_setting(node.input(0)->shape()[1]));
    return;
  }
  ReorgParameter& reorg =
      *writer.add(node, "Reorg", {node.input(0)}, {node.output()}).mutable_reorg_param();
  reorg.set_stride(side);
  if (node.op() == "DepthToSpace") reorg.set_reverse(true);
  if (is_first) reorg.set_order(ReorgParameter::CHANNEL_FIRST);
}

PadParameter::Mode pad_mode(const std::string& mode) {
  if (mode == "constant") return PadParameter::CONSTANT;
  if (mode == "reflect") return PadParameter::REFLECT;
  if (mode == "edge") return PadParameter::EDGE;
  if (mode == "wrap") return PadParameter::WRAP;
  give_up("mode ", mode);
}

void import_pad(const Node& node, LayerWriter& writer) {
  const Call call = node.call();
  const Shape &in = node.input(0)->shape(), &out = node.output()->shape();
  const int rank = in.rank();
  if (in.count() == 0 || out.count() == 0) give_up("an empty tensor");
  const auto pads = call.ints_of("pads", 1, 11);
  std::vector<int64_t> axes;
  if (call.has(3)) axes = call.constant(3, "axes").integers();
  for (int axis = 0; axis < rank && !call.has(3); ++axis) axes.push_back(axis);
  if (!pads || pads->size() != 2 * axes.size()) give_up("pads that are not two an axis");
  std::vector<int64_t> begin(static_cast<size_t>(rank), 0), end(begin);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(call.canonical(axes[i], rank));
    begin[axis] = (*pads)[i];
    end[axis] = (*pads)[axes.size() + i];
  }
  const double value = node.opset < 11 ? call.get_float("value", 0) : number_input(node, 2, 0);
  const PadParameter::Mode mode = pad_mode(call.get_string("mode", "constant"));
  size_t first = 0;
  while (first < begin.size() && begin[first] == 0 && end[first] == 0) ++first;
  if (first == begin.size()) return import_identity(node, writer);
  PadParameter& settings =
      *writer.add(node, "Pad", {node.input(0)}, {node.output()}).mutable_pad_param();
  for (size_t axis = first; axis < begin.size(); ++axis) {
    settings.add_begin(begin[axis]);
    settings.add_end(end[axis]);
  }
  if (mode != PadParameter::CONSTANT) settings.set_mode(mode);
  if (mode == PadParameter::CONSTANT && value != 0) settings.set_value(static_cast<float>(value));
}

}  // namespace

void add_shape_importers(ImporterTable& table) {
  table.add("Identity", import_identity);
  table.add("Cast", import_cast);
  table.add("CastLike", import_cast);
  for (const char* op : {"Reshape", "Flatten"}) table.add(op, import_reshape);
  for (const char* op : {"Squeeze", "Unsqueeze"}) table.add(op, import_squeeze);
  table.add("Transpose", import_transpose);
  table.add("Expand", import_expand);
  table.add("Tile", import_tile);
  table.add("Concat", import_concat);
  table.add("DepthToSpace", import_pixel_shuffle);
  table.add("SpaceToDepth", import_pixel_shuffle);
  table.add("Pad", import_pad);
}

}  // namespace crema::onnx
