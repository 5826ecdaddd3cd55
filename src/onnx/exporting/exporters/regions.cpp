// Layers that pool regions of maps.
#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// Regions (R, 5) as ONNX has them: the images (R) as INT64, and the boxes (R, 4).
Names split_regions(const ExportedLayer& layer, GraphBuilder& graph) {
  std::string regions = layer.input(1);
  if (layer.bottom(1).rank() != 2) regions = graph.reshape(regions, std::vector<int64_t>{-1, 5});
  const Names parts = graph.split(regions, 1, {1, 4});
  const std::string images = graph.cast(graph.squeeze(parts[0], {1}), TensorProto::INT64);
  return {images, parts[1]};
}

void export_roi_pooling(const ExportedLayer& layer, GraphBuilder& graph) {
  const ROIPoolingParameter& settings = layer.param().roi_pooling_param();
  std::string regions = layer.input(1);
  if (layer.bottom(1).rank() != 2) regions = graph.reshape(regions, std::vector<int64_t>{-1, 5});
  graph.add("MaxRoiPool", {layer.input(0), regions},
            {{"pooled_shape", std::vector<int64_t>{layer.top()[2], layer.top()[3]}},
             {"spatial_scale", settings.spatial_scale()}},
            layer.output());
}

/// RoiAlign with `rows` x `columns` cells. Before opset 16 it has no regions of half pixels.
std::string roi_align(const ExportedLayer& layer, GraphBuilder& graph, int64_t rows,
                      int64_t columns, double scale, int64_t samples, bool half_pixels) {
  const Names parts = split_regions(layer, graph);
  Attributes attributes{{"mode", std::string("avg")},
                        {"output_height", rows},
                        {"output_width", columns},
                        {"sampling_ratio", samples},
                        {"spatial_scale", scale}};
  if (graph.opset() >= 16)
    attributes.emplace_back("coordinate_transformation_mode",
                            std::string(half_pixels ? "half_pixel" : "output_half_pixel"));
  return graph.add("RoiAlign", {layer.input(0), parts[1], parts[0]}, attributes);
}

void export_roi_align(const ExportedLayer& layer, GraphBuilder& graph) {
  const ROIAlignParameter& s = layer.param().roi_align_param();
  if (s.aligned() && graph.opset() < 16) return export_custom(layer, graph);
  finish(layer, graph,
         roi_align(layer, graph, layer.top()[2], layer.top()[3], s.spatial_scale(),
                   s.sampling_ratio(), s.aligned()));
}

/// All cells of all channels are computed; each cell takes its own channel of them.
void export_psroi_align(const ExportedLayer& layer, GraphBuilder& graph) {
  const PSROIAlignParameter& s = layer.param().psroi_align_param();
  if (graph.opset() < 16) return export_custom(layer, graph);
  const int64_t n = s.group_size(), cells = n * n, outputs = s.output_dim();
  const std::string all =
      roi_align(layer, graph, n, n, s.spatial_scale(), s.sampling_ratio(), true);
  const std::string pairs = graph.reshape(all, std::vector<int64_t>{-1, outputs, cells, cells});
  std::vector<double> own(static_cast<size_t>(cells * cells), 0.0);
  for (int64_t i = 0; i < cells; ++i) own[static_cast<size_t>(i * cells + i)] = 1;
  const std::string chosen =
      graph.add("Mul", {pairs, graph.floats(Shape{cells, cells}, own, "own_cells")});
  const std::string sums = graph.reduce("ReduceSum", chosen, {2}, false);
  graph.reshape(sums, std::vector<int64_t>{-1, outputs, n, n}, layer.output());
}

}  // namespace

void add_region_exporters(ExporterTable& table) {
  table.add("PSROIAlign", export_psroi_align);
  table.add("ROIAlign", export_roi_align);
  table.add("ROIPooling", export_roi_pooling);
}

}  // namespace crema::onnx
