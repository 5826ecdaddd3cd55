// Layers that resize maps.
#include <algorithm>
#include <cmath>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// The pixel of an axis of `from` that pixel i of `to` is, for the layers' own ways of rounding.
using Pixel = int64_t (*)(int64_t i, int64_t from, int64_t to);

int64_t pixel_above(int64_t i, int64_t from, int64_t to) {
  return std::min(i * from / to, from - 1);
}
int64_t pixel_of_centre(int64_t i, int64_t from, int64_t to) {
  return std::min((2 * i + 1) * from / (2 * to), from - 1);
}
int64_t pixel_of_corners(int64_t i, int64_t from, int64_t to) {
  const double at =
      to > 1 ? static_cast<double>(i) * static_cast<double>(from - 1) / static_cast<double>(to - 1)
             : 0;
  return std::min<int64_t>(std::llround(at), from - 1);
}

/// (..., H, W) resized without interpolation. By a whole factor it is Resize; else each axis is
/// taken by indices, since runtimes round positions to f32.
std::string nearest(GraphBuilder& graph, const std::string& x, const Shape& from, const Shape& to,
                    Pixel pixel) {
  const int rank = from.rank();
  const auto is_whole = [&](int axis) { return from[axis] > 0 && to[axis] % from[axis] == 0; };
  if (from == to) return x;
  if (rank == 4 && is_whole(2) && is_whole(3) && pixel != pixel_of_corners) {
    const std::vector<double> scales{1, 1, static_cast<double>(to[2] / from[2]),
                                     static_cast<double>(to[3] / from[3])};
    return graph.add("Resize", {x, "", graph.floats(Shape{4}, scales)},
                     {{"mode", std::string("nearest")},
                      {"coordinate_transformation_mode", std::string("asymmetric")},
                      {"nearest_mode", std::string("floor")}});
  }
  std::string y = x;
  for (int axis = rank - 2; axis < rank; ++axis) {
    if (from[axis] == to[axis]) continue;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < to[axis]; ++i) indices.push_back(pixel(i, from[axis], to[axis]));
    y = graph.add("Gather", {y, graph.ints(indices)}, {{"axis", axis}});
  }
  return y;
}

/// The factor, as the f32 number that gives `to` when it multiplies `from` and is rounded down.
/// Some readers multiply in f32, others in f64, which rounds no product up to `to`.
double factor_of(int64_t from, int64_t to) {
  auto factor = static_cast<float>(static_cast<double>(to) / static_cast<double>(from));
  while (static_cast<double>(factor) * static_cast<double>(from) < static_cast<double>(to))
    factor = std::nextafter(factor, 2 * factor);
  return static_cast<double>(factor);
}

/// (..., H, W) resized with interpolation. `mode`: "linear" or "cubic".
std::string interpolated(GraphBuilder& graph, const std::string& input, const Shape& from,
                         const Shape& to, const std::string& mode, bool align_corners) {
  if (from == to) return input;
  const int rank = from.rank();
  std::string x = input;
  Shape maps = to;
  if (rank != 4) {
    const Shape before{from.count(0, rank - 2), 1, from[-2], from[-1]};
    maps = Shape{before[0], 1, to[-2], to[-1]};
    x = graph.reshape(x, before);
  }
  Attributes attributes{{"mode", mode},
                        {"coordinate_transformation_mode",
                         std::string(align_corners ? "align_corners" : "half_pixel")}};
  if (mode == "cubic") attributes.emplace_back("cubic_coeff_a", -0.75);
  std::string y;
  if (!graph.open_batch()) {
    y = graph.add("Resize", {x, "", "", graph.ints(maps.dims())}, attributes);
  } else if (graph.opset() >= 18) {
    attributes.emplace_back("axes", std::vector<int64_t>{2, 3});
    y = graph.add("Resize", {x, "", "", graph.ints({to[-2], to[-1]})}, attributes);
  } else {
    const std::vector<double> scales{1, 1, factor_of(from[-2], to[-2]),
                                     factor_of(from[-1], to[-1])};
    y = graph.add("Resize", {x, "", graph.floats(Shape{4}, scales)}, attributes);
  }
  return rank != 4 ? graph.reshape(y, to) : y;
}

void export_resize(const ExportedLayer& layer, GraphBuilder& graph) {
  const ResizeLayerParameter& settings = layer.param().resize_param();
  const Shape &from = layer.bottom(), &to = layer.top();
  const std::string& x = layer.input();
  const bool corners = settings.align_corners();
  switch (settings.mode()) {
    case ResizeLayerParameter::NEAREST:
      return finish(layer, graph,
                    nearest(graph, x, from, to, corners ? pixel_of_corners : pixel_above));
    case ResizeLayerParameter::NEAREST_EXACT:
      return finish(layer, graph, nearest(graph, x, from, to, pixel_of_centre));
    case ResizeLayerParameter::BICUBIC:
      return finish(layer, graph, interpolated(graph, x, from, to, "cubic", corners));
    case ResizeLayerParameter::BILINEAR:
      return finish(layer, graph, interpolated(graph, x, from, to, "linear", corners));
  }
}

void export_interp(const ExportedLayer& layer, GraphBuilder& graph) {
  const InterpParameter& settings = layer.param().interp_param();
  std::string x = layer.input();
  Shape from = layer.bottom();
  const int64_t begin = -settings.pad_beg(), end = -settings.pad_end();
  if (begin != 0 || end != 0) {
    const int64_t height = from[2] - end, width = from[3] - end;
    x = graph.slice(x, {2, 3}, {begin, begin}, {height, width});
    from.set(2, height - begin);
    from.set(3, width - begin);
  }
  finish(layer, graph, interpolated(graph, x, from, layer.top(), "linear", true));
}

void export_resize_nearest(const ExportedLayer& layer, GraphBuilder& graph) {
  const bool corners = layer.param().resize_nearest_neighbor_param().align_corners();
  finish(layer, graph,
         nearest(graph, layer.input(), layer.bottom(), layer.top(),
                 corners ? pixel_of_corners : pixel_above));
}

void export_upsample(const ExportedLayer& layer, GraphBuilder& graph) {
  if (layer.bottoms() > 1) return export_by_places(layer, graph);
  finish(layer, graph, nearest(graph, layer.input(), layer.bottom(), layer.top(), pixel_above));
}

}  // namespace

void add_resize_exporters(ExporterTable& table) {
  table.add("Interp", export_interp);
  table.add("Resize", export_resize);
  table.add("ResizeNearestNeighbor", export_resize_nearest);
  table.add("Upsample", export_upsample);
  table.add("UpsampleDarknet", export_upsample);
}

}  // namespace crema::onnx
