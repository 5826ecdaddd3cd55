// Layers that sample maps at points that the net computes.
#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// Along one axis of `size` pixels: the pixel at or before each point and the one behind it, each
/// with its index, cut to the axis, and its weight, 0 where it lies outside.
struct Neighbours {
  std::string index[2], weight[2];
};

Neighbours neighbours_of(GraphBuilder& graph, const std::string& points, int64_t size,
                         bool border) {
  const double last = static_cast<double>(size - 1);
  const std::string at = border ? graph.clip(points, 0, last) : points;
  Neighbours result;
  const std::string below = graph.add("Floor", {at});
  const std::string share = graph.add("Sub", {at, below});
  for (int k = 0; k < 2; ++k) {
    const std::string pixel = k == 0 ? below : plus(graph, below, 1);
    const std::string cut = graph.clip(pixel, 0, last);
    const std::string inside = graph.cast(graph.add("Equal", {cut, pixel}), TensorProto::FLOAT);
    const std::string weight = k == 0 ? graph.add("Sub", {graph.number(1), share}) : share;
    result.weight[k] = graph.add("Mul", {weight, inside});
    result.index[k] = graph.cast(cut, TensorProto::INT64);
  }
  return result;
}

}  // namespace

std::string bilinear_sample(GraphBuilder& graph, const std::string& map, const std::string& y,
                            const std::string& x, int64_t batch, int64_t channels, int64_t height,
                            int64_t width, bool border) {
  // Pixels as rows of their channels: (B, H W, C).
  const std::string flat =
      graph.reshape(map, std::vector<int64_t>{batch, channels, height * width});
  const std::string pixels = graph.transpose(flat, {0, 2, 1});
  const Neighbours rows = neighbours_of(graph, y, height, border);
  const Neighbours columns = neighbours_of(graph, x, width, border);
  Names parts;
  for (int k = 0; k < 4; ++k) {
    const int down = k / 2, right = k % 2;
    const std::string row = graph.add("Mul", {rows.index[down], graph.index(width)});
    const std::string place = graph.add("Add", {row, columns.index[right]});
    const std::string values = graph.add("GatherND", {pixels, graph.unsqueeze(place, {2})},
                                         {{"batch_dims", 1}});  // (B, M, C)
    const std::string weight = graph.add("Mul", {rows.weight[down], columns.weight[right]});
    parts.push_back(graph.add("Mul", {values, graph.unsqueeze(weight, {2})}));
  }
  return graph.transpose(graph.add("Sum", parts), {0, 2, 1});
}

namespace {

/// Where SpatialTransformer has pixel i of n, from -1 to 1.
enum class Pixels { published, corners, edges };

double position_of(Pixels pixels, int64_t i, int64_t n) {
  const auto at = static_cast<double>(i), size = static_cast<double>(n);
  if (pixels == Pixels::published) return -1 + 2 * at / size;
  if (pixels == Pixels::edges) return -1 + (2 * at + 1) / size;
  return n > 1 ? -1 + 2 * at / (size - 1) : 0;
}

/// The other way round: rows or columns from positions.
std::string pixel_at(GraphBuilder& graph, const std::string& position, Pixels pixels, int64_t n) {
  const auto size = static_cast<double>(n);
  const std::string from_0 = plus(graph, position, 1);
  if (pixels == Pixels::published) return times(graph, from_0, size / 2);
  if (pixels == Pixels::corners) return times(graph, from_0, (size - 1) / 2);
  return plus(graph, times(graph, from_0, size / 2), -0.5);
}

/// theta (N, 2, 3) of the elements that bottom 1 has and those that are set.
std::string theta_of(const ExportedLayer& layer, GraphBuilder& graph) {
  const SpatialTransformerParameter& s = layer.param().st_param();
  const std::optional<double> fixed[6] = {
      s.has_theta_1_1() ? std::optional(s.theta_1_1()) : std::nullopt,
      s.has_theta_1_2() ? std::optional(s.theta_1_2()) : std::nullopt,
      s.has_theta_1_3() ? std::optional(s.theta_1_3()) : std::nullopt,
      s.has_theta_2_1() ? std::optional(s.theta_2_1()) : std::nullopt,
      s.has_theta_2_2() ? std::optional(s.theta_2_2()) : std::nullopt,
      s.has_theta_2_3() ? std::optional(s.theta_2_3()) : std::nullopt};
  std::vector<double> values(6, 0.0);
  std::vector<double> places;  // (free elements, 6): 1 where an element goes
  int64_t open = 0;
  for (size_t i = 0; i < 6; ++i) {
    if (fixed[i]) {
      values[i] = *fixed[i];
      continue;
    }
    places.resize(places.size() + 6, 0.0);
    places[static_cast<size_t>(open) * 6 + i] = 1;
    ++open;
  }
  if (open == 0) {
    graph.need_fixed_batch("all elements of its map are set");
    const std::string all = graph.floats(Shape{1, 6}, values, "theta");
    const std::string each = graph.add("Expand", {all, graph.ints({layer.bottom()[0], 6})});
    return graph.reshape(each, std::vector<int64_t>{-1, 2, 3});
  }
  std::string theta = graph.reshape(layer.input(1), std::vector<int64_t>{-1, open});
  if (open < 6) {
    theta = graph.add("MatMul", {theta, graph.floats(Shape{open, 6}, places, "places")});
    theta = graph.add("Add", {theta, graph.floats(Shape{1, 6}, values, "theta")});
  }
  return graph.reshape(theta, std::vector<int64_t>{-1, 2, 3});
}

void export_spatial_transformer(const ExportedLayer& layer, GraphBuilder& graph) {
  const SpatialTransformerParameter& s = layer.param().st_param();
  const Shape &from = layer.bottom(), &to = layer.top();
  const Pixels pixels = !s.has_align_corners() ? Pixels::published
                        : s.align_corners()    ? Pixels::corners
                                               : Pixels::edges;
  const bool border = s.padding_mode() == SpatialTransformerParameter::BORDER;
  const int64_t positions = to[2] * to[3];
  std::vector<double> grid(static_cast<size_t>(3 * positions), 1.0);
  for (int64_t p = 0; p < positions; ++p) {
    grid[static_cast<size_t>(p)] = position_of(pixels, p / to[3], to[2]);
    grid[static_cast<size_t>(positions + p)] = position_of(pixels, p % to[3], to[3]);
  }
  const std::string points = graph.add(
      "MatMul", {theta_of(layer, graph), graph.floats(Shape{3, positions}, grid, "grid")});
  const Names halves = graph.split(points, 1, {1, 1});  // rows, columns: (N, 1, positions)
  const int64_t batch = graph.open_batch() ? -1 : from[0];
  if (graph.opset() >= 16 && pixels != Pixels::published) {
    const std::string columns_first =
        graph.transpose(graph.concat({halves[1], halves[0]}, 1), {0, 2, 1});
    const std::string field =
        graph.reshape(columns_first, std::vector<int64_t>{batch, to[2], to[3], 2});
    graph.add("GridSample", {layer.input(), field},
              {{"mode", std::string(graph.opset() >= 20 ? "linear" : "bilinear")},
               {"padding_mode", std::string(border ? "border" : "zeros")},
               {"align_corners", pixels == Pixels::corners ? 1 : 0}},
              layer.output());
    return;
  }
  const std::string y = pixel_at(graph, graph.squeeze(halves[0], {1}), pixels, from[2]);
  const std::string x = pixel_at(graph, graph.squeeze(halves[1], {1}), pixels, from[3]);
  const std::string samples =
      bilinear_sample(graph, layer.input(), y, x, batch, from[1], from[2], from[3], border);
  graph.reshape(samples, std::vector<int64_t>{batch, to[1], to[2], to[3]}, layer.output());
}

void export_grid_sample(const ExportedLayer& layer, GraphBuilder& graph) {
  const GridSampleParameter& s = layer.param().grid_sample_param();
  const bool newer = graph.opset() >= 20;
  if (graph.opset() >= 16) {
    const char* mode = s.mode() == GridSampleParameter::NEAREST   ? "nearest"
                       : s.mode() == GridSampleParameter::BICUBIC ? (newer ? "cubic" : "bicubic")
                                                                  : (newer ? "linear" : "bilinear");
    const char* padding = s.padding() == GridSampleParameter::BORDER       ? "border"
                          : s.padding() == GridSampleParameter::REFLECTION ? "reflection"
                                                                           : "zeros";
    graph.add("GridSample", {layer.input(0), layer.input(1)},
              {{"mode", std::string(mode)},
               {"padding_mode", std::string(padding)},
               {"align_corners", s.align_corners() ? 1 : 0}},
              layer.output());
    return;
  }
  if (s.mode() != GridSampleParameter::BILINEAR || s.padding() == GridSampleParameter::REFLECTION)
    throw Error("needs opset 16 or later, which has the operator GridSample");
  const Shape &from = layer.bottom(), &to = layer.top();
  const int64_t batch = graph.open_batch() ? -1 : from[0];
  const std::string points =
      graph.reshape(layer.input(1), std::vector<int64_t>{batch, to[2] * to[3], 2});
  const Names halves = graph.split(points, 2, {1, 1});
  const Pixels pixels = s.align_corners() ? Pixels::corners : Pixels::edges;
  const std::string x = pixel_at(graph, graph.squeeze(halves[0], {2}), pixels, from[3]);
  const std::string y = pixel_at(graph, graph.squeeze(halves[1], {2}), pixels, from[2]);
  const std::string samples = bilinear_sample(graph, layer.input(), y, x, batch, from[1], from[2],
                                              from[3], s.padding() == GridSampleParameter::BORDER);
  graph.reshape(samples, std::vector<int64_t>{batch, to[1], to[2], to[3]}, layer.output());
}

}  // namespace

void add_sampling_exporters(ExporterTable& table) {
  table.add("GridSample", export_grid_sample);
  table.add("SpatialTransformer", export_spatial_transformer);
}

}  // namespace crema::onnx
