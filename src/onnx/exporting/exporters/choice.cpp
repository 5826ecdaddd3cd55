// Layers that choose: by index, by value, by a selector.
#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// Indices along `axis` (of `size`) of the `count` greatest values, the highest index first among
/// equal values, and the values. TopK has the lowest index first, so it looks at the reversed axis.
Names last_greatest(GraphBuilder& graph, const std::string& x, int64_t axis, int64_t size,
                    int64_t count) {
  const std::string turned = graph.slice(x, {axis}, {-1}, {-size - 1}, {-1});
  const Names found =
      graph.add_many("TopK", {turned, graph.ints({count})}, {"", ""}, {{"axis", axis}});
  const std::string indices = graph.add("Sub", {graph.index(size - 1), found[1]});
  return {graph.cast(indices, TensorProto::FLOAT), found[0]};
}

void export_argmax(const ExportedLayer& layer, GraphBuilder& graph) {
  const ArgMaxParameter& settings = layer.param().argmax_param();
  const Shape& shape = layer.bottom();
  const int64_t count = settings.top_k();
  if (settings.has_axis()) {
    const int axis = shape.canonical_axis(settings.axis());
    if (axis == 0) graph.need_fixed_batch("it searches along axis 0");
    if (count == 1 && !settings.out_max_val()) {
      const std::string indices = graph.add(
          "ArgMax", {layer.input()}, {{"axis", axis}, {"keepdims", 1}, {"select_last_index", 1}});
      graph.cast(indices, TensorProto::FLOAT, layer.output());
      return;
    }
    const Names found = last_greatest(graph, layer.input(), axis, shape[axis], count);
    return finish(layer, graph, found[settings.out_max_val() ? 1 : 0]);
  }
  const int64_t size = shape.count(1);
  const std::string rows = graph.reshape(layer.input(), Shape{shape[0], size});
  Names found;
  if (count == 1 && !settings.out_max_val()) {
    const std::string indices =
        graph.add("ArgMax", {rows}, {{"axis", 1}, {"keepdims", 1}, {"select_last_index", 1}});
    found = {graph.cast(indices, TensorProto::FLOAT)};
  } else {
    found = last_greatest(graph, rows, 1, size, count);
  }
  const std::string y = settings.out_max_val() ? graph.concat(found, 1) : found[0];
  graph.reshape(y, layer.top(), layer.output());
}

void export_topk(const ExportedLayer& layer, GraphBuilder& graph) {
  const TopKParameter& settings = layer.param().topk_param();
  const int axis = layer.bottom().canonical_axis(settings.axis());
  const Names found =
      graph.add_many("TopK", {layer.input(), graph.ints({settings.k()})}, {layer.output(0), ""},
                     {{"axis", axis},
                      {"largest", settings.largest() ? 1 : 0},
                      {"sorted", settings.sorted() ? 1 : 0}});
  if (layer.tops() > 1) graph.cast(found[1], TensorProto::FLOAT, layer.output(1));
}

void export_gather(const ExportedLayer& layer, GraphBuilder& graph) {
  const GatherParameter& settings = layer.param().gather_param();
  const int axis = layer.bottom().canonical_axis(settings.axis());
  std::string indices;
  if (layer.bottoms() > 1) {
    indices = graph.cast(layer.input(1), TensorProto::INT64);
  } else if (settings.squeeze()) {
    indices = graph.index(settings.index(0));
  } else {
    indices = graph.ints({settings.index().begin(), settings.index().end()});
  }
  graph.add("Gather", {layer.input(), indices}, {{"axis", axis}}, layer.output());
}

void export_embed(const ExportedLayer& layer, GraphBuilder& graph) {
  const std::string indices = graph.cast(layer.input(), TensorProto::INT64);
  std::string y = graph.add("Gather", {graph.constant(layer.weight(0), "weight"), indices});
  if (layer.param().embed_param().bias_term())
    y = graph.add("Add", {y, graph.constant(layer.weight(1), "bias")});
  finish(layer, graph, y);
}

void export_batch_reindex(const ExportedLayer& layer, GraphBuilder& graph) {
  std::string indices = graph.cast(layer.input(1), TensorProto::INT64);
  if (layer.bottom(1).rank() != 1) indices = graph.reshape(indices, std::vector<int64_t>{-1});
  graph.add("Gather", {layer.input(), indices}, {{"axis", 0}}, layer.output());
}

void export_filter(const ExportedLayer& layer, GraphBuilder& graph) {
  const std::string selector = graph.cast(
      graph.reshape(layer.input(layer.bottoms() - 1), std::vector<int64_t>{-1}), TensorProto::BOOL);
  for (size_t i = 0; i < layer.tops(); ++i)
    graph.add("Compress", {layer.input(i), selector}, {{"axis", 0}}, layer.output(i));
}

void export_cumsum(const ExportedLayer& layer, GraphBuilder& graph) {
  const CumSumParameter& settings = layer.param().cumsum_param();
  graph.add("CumSum", {layer.input(), graph.index(layer.bottom().canonical_axis(settings.axis()))},
            {{"exclusive", settings.exclusive() ? 1 : 0}, {"reverse", settings.reverse() ? 1 : 0}},
            layer.output());
}

}  // namespace

void add_choice_exporters(ExporterTable& table) {
  table.add("ArgMax", export_argmax);
  table.add("BatchReindex", export_batch_reindex);
  table.add("CumSum", export_cumsum);
  table.add("Embed", export_embed);
  table.add("Filter", export_filter);
  table.add("Gather", export_gather);
  table.add("TopK", export_topk);
}

}  // namespace crema::onnx
