// Layers that move values: the same numbers in other places and shapes.
#include <algorithm>
#include <limits>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

void export_shape(const ExportedLayer& layer, GraphBuilder& graph) {
  if (layer.bottom() == layer.top()) return finish(layer, graph, layer.input());
  graph.reshape(layer.input(), layer.top(), layer.output());
}

void export_flatten(const ExportedLayer& layer, GraphBuilder& graph) {
  const FlattenParameter& settings = layer.param().flatten_param();
  const int rank = layer.bottom().rank();
  const bool as_onnx = rank > 1 && layer.bottom().canonical_axis(settings.axis()) == 1 &&
                       layer.bottom().canonical_axis(settings.end_axis()) == rank - 1;
  if (!as_onnx || rank == 2) return export_shape(layer, graph);
  graph.add("Flatten", {layer.input()}, {{"axis", 1}}, layer.output());
}

void export_order(const ExportedLayer& layer, GraphBuilder& graph,
                  const std::vector<int64_t>& order) {
  if (std::ranges::is_sorted(order)) return finish(layer, graph, layer.input());
  graph.transpose(layer.input(), order, layer.output());
}

void export_permute(const ExportedLayer& layer, GraphBuilder& graph) {
  const auto& given = layer.param().permute_param().order();
  std::vector<int64_t> order(given.begin(), given.end());
  for (const int64_t axis : counted(layer.bottom().rank())) {
    if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
  }
  export_order(layer, graph, order);
}

void export_transpose(const ExportedLayer& layer, GraphBuilder& graph) {
  std::vector<int64_t> order;
  for (const int axis : layer.param().transpose_param().dim())
    order.push_back(layer.bottom().canonical_axis(axis));
  export_order(layer, graph, order);
}

void export_crop(const ExportedLayer& layer, GraphBuilder& graph) {
  const CropParameter& settings = layer.param().crop_param();
  const Shape &from = layer.bottom(), &to = layer.top();
  const int first = from.canonical_axis(settings.axis());
  std::vector<int64_t> axes, begins, ends;
  for (int axis = first; axis < from.rank(); ++axis) {
    const int64_t begin = settings.offset_size() == 0   ? 0
                          : settings.offset_size() == 1 ? settings.offset(0)
                                                        : settings.offset(axis - first);
    if (begin == 0 && from[axis] == to[axis]) continue;
    if (axis == 0) graph.need_fixed_batch("it is cut along axis 0");
    axes.push_back(axis);
    begins.push_back(begin);
    ends.push_back(begin + to[axis]);
  }
  if (axes.empty()) return finish(layer, graph, layer.input());
  graph.slice(layer.input(), axes, begins, ends, {}, layer.output());
}

void export_concat(const ExportedLayer& layer, GraphBuilder& graph) {
  const ConcatParameter& settings = layer.param().concat_param();
  const int axis = settings.has_concat_dim() ? static_cast<int>(settings.concat_dim())
                                             : layer.bottom().canonical_axis(settings.axis());
  Names inputs;
  for (size_t i = 0; i < layer.bottoms(); ++i) inputs.push_back(layer.input(i));
  if (inputs.size() == 1) return finish(layer, graph, inputs[0]);
  graph.concat(inputs, axis, layer.output());
}

void export_slice(const ExportedLayer& layer, GraphBuilder& graph) {
  const SliceParameter& settings = layer.param().slice_param();
  const int axis = settings.has_slice_dim() ? static_cast<int>(settings.slice_dim())
                                            : layer.bottom().canonical_axis(settings.axis());
  if (layer.tops() == 1) return finish(layer, graph, layer.input());
  if (axis == 0) graph.need_fixed_batch("it is cut along axis 0");
  std::vector<int64_t> sizes;
  Names outputs;
  for (size_t i = 0; i < layer.tops(); ++i) {
    sizes.push_back(layer.top(i)[axis]);
    outputs.push_back(layer.output(i));
  }
  graph.split(layer.input(), axis, sizes, outputs);
}

void export_tile(const ExportedLayer& layer, GraphBuilder& graph) {
  const TileParameter& settings = layer.param().tile_param();
  if (settings.tiles() == 1) return finish(layer, graph, layer.input());
  std::vector<int64_t> repeats(static_cast<size_t>(layer.bottom().rank()), 1);
  repeats[static_cast<size_t>(layer.bottom().canonical_axis(settings.axis()))] = settings.tiles();
  graph.add("Tile", {layer.input(), graph.ints(repeats)}, {}, layer.output());
}

void export_repeat(const ExportedLayer& layer, GraphBuilder& graph) {
  const RepeatParameter& settings = layer.param().repeat_param();
  if (settings.times() == 1) return finish(layer, graph, layer.input());
  const int axis = layer.bottom().canonical_axis(settings.axis());
  if (axis == 0) graph.need_fixed_batch("it repeats along axis 0");
  std::vector<int64_t> indices = counted(layer.top()[axis]);
  for (int64_t& index : indices) index /= settings.times();
  graph.add("Gather", {layer.input(), graph.ints(indices)}, {{"axis", axis}}, layer.output());
}

void export_expand(const ExportedLayer& layer, GraphBuilder& graph) {
  // Sizes that stay are 1, which leaves them as they are, in an open batch too.
  std::vector<int64_t> sizes = layer.top().dims();
  const int more = layer.top().rank() - layer.bottom().rank();
  for (int axis = 0; axis < layer.bottom().rank(); ++axis) {
    if (layer.bottom()[axis] == layer.top()[axis + more])
      sizes[static_cast<size_t>(axis + more)] = 1;
  }
  const auto& dims = layer.param().expand_param().dim();
  const bool follows = layer.bottoms() > 1 && dims.size() == layer.top().rank() && dims[0] == -2;
  std::string shape;
  if (follows && graph.open_batch()) {
    const std::string other = graph.add("Shape", {layer.input(1)});
    const std::string batch = graph.slice(other, {0}, {0}, {1});
    shape = graph.concat({batch, graph.ints({sizes.begin() + 1, sizes.end()})}, 0);
  } else {
    shape = graph.ints(sizes);
  }
  graph.add("Expand", {layer.input(), shape}, {}, layer.output());
}

std::string reversed(GraphBuilder& graph, const std::string& x, const std::vector<int64_t>& axes,
                     std::string output = {}) {
  const std::vector<int64_t> last(axes.size(), -1);
  return graph.slice(x, axes, last, std::vector<int64_t>(axes.size(), -kEnd), last,
                     std::move(output));
}

void export_reverse(const ExportedLayer& layer, GraphBuilder& graph) {
  reversed(graph, layer.input(),
           {layer.bottom().canonical_axis(layer.param().reverse_param().axis())}, layer.output());
}

void export_flip(const ExportedLayer& layer, GraphBuilder& graph) {
  const FlipParameter& settings = layer.param().flip_param();
  std::vector<int64_t> axes;
  if (settings.flip_height()) axes.push_back(layer.bottom().rank() - 2);
  if (settings.flip_width()) axes.push_back(layer.bottom().rank() - 1);
  if (axes.empty()) return finish(layer, graph, layer.input());
  reversed(graph, layer.input(), axes, layer.output());
}

/// (N, C, ...) with its axes 1 and up seen as `inner`, in another order, as the top. The batch
/// stays in front.
void export_blocks(const ExportedLayer& layer, GraphBuilder& graph, std::vector<int64_t> inner,
                   const std::vector<int64_t>& order) {
  inner.insert(inner.begin(), layer.bottom()[0]);
  const std::string blocks = graph.reshape(layer.input(), Shape(std::move(inner)));
  graph.reshape(graph.transpose(blocks, order), layer.top(), layer.output());
}

void export_shuffle_channel(const ExportedLayer& layer, GraphBuilder& graph) {
  const Shape& shape = layer.bottom();
  const int64_t group = layer.param().shuffle_channel_param().group();
  if (group == 1) return finish(layer, graph, layer.input());
  export_blocks(layer, graph, {group, shape[1] / group, shape.count(2)}, {0, 2, 1, 3});
}

/// Channels (channel, row, column in the block), or with `position_first` (row, column, channel),
/// to blocks of pixels.
void export_to_pixels(const ExportedLayer& layer, GraphBuilder& graph, int64_t side,
                      bool position_first) {
  graph.add("DepthToSpace", {layer.input()},
            {{"blocksize", side}, {"mode", std::string(position_first ? "DCR" : "CRD")}},
            layer.output());
}

/// The other way round.
void export_to_channels(const ExportedLayer& layer, GraphBuilder& graph, int64_t side,
                        bool position_first) {
  const Shape& shape = layer.bottom();
  const std::vector<int64_t> order = position_first ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                                    : std::vector<int64_t>{0, 1, 3, 5, 2, 4};
  export_blocks(layer, graph, {shape[1], shape[2] / side, side, shape[3] / side, side}, order);
}

void export_reorg(const ExportedLayer& layer, GraphBuilder& graph) {
  const ReorgParameter& settings = layer.param().reorg_param();
  const int64_t side = settings.stride();
  const bool position_first = settings.order() == ReorgParameter::POSITION_FIRST;
  if (settings.reverse()) return export_to_pixels(layer, graph, side, position_first);
  if (!position_first) return export_to_channels(layer, graph, side, false);
  // As published: the blocks are those of the bottom's memory seen as (C / s^2, H s, W s).
  const Shape& shape = layer.bottom();
  if (shape[1] % (side * side) != 0)
    throw Error(shape[1], " channels are no multiple of ", side * side);
  export_blocks(layer, graph, {shape[1] / (side * side), shape[2], side, shape[3], side},
                {0, 3, 5, 1, 2, 4});
}

void export_pad(const ExportedLayer& layer, GraphBuilder& graph) {
  const PadParameter& settings = layer.param().pad_param();
  const int rank = layer.bottom().rank();
  const auto of_all = [&](const auto& values) {
    std::vector<int64_t> all(static_cast<size_t>(rank), 0);
    if (values.size() > rank) throw Error(values.size(), " pads for ", rank, " axes");
    std::ranges::copy(values, all.end() - values.size());
    return all;
  };
  std::vector<int64_t> pads = of_all(settings.begin());
  const std::vector<int64_t> ends = of_all(settings.end());
  if (settings.mode() == PadParameter::WRAP) {
    std::string x = layer.input();
    for (int axis = 0; axis < rank; ++axis) {
      const auto a = static_cast<size_t>(axis);
      if (pads[a] == 0 && ends[a] == 0) continue;
      if (axis == 0) graph.need_fixed_batch("it is padded along axis 0");
      const int64_t size = layer.bottom()[axis];
      std::vector<int64_t> indices = counted(layer.top()[axis], -pads[a]);
      for (int64_t& index : indices) index = (index % size + size) % size;
      x = graph.add("Gather", {x, graph.ints(indices)}, {{"axis", axis}});
    }
    return finish(layer, graph, x);
  }
  pads.insert(pads.end(), ends.begin(), ends.end());
  if (std::ranges::count(pads, 0) == static_cast<ptrdiff_t>(pads.size()))
    return finish(layer, graph, layer.input());
  const char* mode = settings.mode() == PadParameter::CONSTANT  ? "constant"
                     : settings.mode() == PadParameter::REFLECT ? "reflect"
                                                                : "edge";
  graph.pad(layer.input(), pads, settings.value(), mode, layer.output());
}

void export_strided_slice(const ExportedLayer& layer, GraphBuilder& graph) {
  const StridedSliceParameter& settings = layer.param().strided_slice_param();
  std::vector<int64_t> axes, steps;
  for (int i = 0; i < settings.axis_size(); ++i) {
    axes.push_back(layer.bottom().canonical_axis(settings.axis(i)));
    if (axes.back() == 0) graph.need_fixed_batch("it is cut along axis 0");
    steps.push_back(i < settings.step_size() ? settings.step(i) : 1);
  }
  graph.slice(layer.input(), axes, {settings.begin().begin(), settings.begin().end()},
              {settings.end().begin(), settings.end().end()}, steps, layer.output());
}

void export_silence(const ExportedLayer&, GraphBuilder&) {}

}  // namespace

void add_shape_exporters(ExporterTable& table) {
  table.add("Concat", export_concat);
  table.add("Crop", export_crop);
  table.add("Expand", export_expand);
  table.add("Flatten", export_flatten);
  table.add("Flip", export_flip);
  table.add("Pad", export_pad);
  table.add("Permute", export_permute);
  table.add("Reorg", export_reorg);
  table.add("Repeat", export_repeat);
  table.add("Reshape", export_shape);
  table.add("Reverse", export_reverse);
  table.add("ShuffleChannel", export_shuffle_channel);
  table.add("Silence", export_silence);
  table.add("Slice", export_slice);
  table.add("StridedSlice", export_strided_slice);
  table.add("Tile", export_tile);
  table.add("Transpose", export_transpose);
}

}  // namespace crema::onnx
