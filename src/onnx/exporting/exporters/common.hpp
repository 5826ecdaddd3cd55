// What exporters of several kinds use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "onnx/exporting/exporter.hpp"

namespace crema::onnx {

/// A setting of `axes` spatial axes: `each` once for all or once for each; or height and width.
template <class Values>
std::vector<int64_t> spatial_setting(const Values& each, std::optional<int64_t> height,
                                     std::optional<int64_t> width, size_t axes, int64_t otherwise) {
  std::vector<int64_t> result(axes, otherwise);
  if (!each.empty()) {
    if (each.size() != 1 && static_cast<size_t>(each.size()) != axes)
      throw Error(each.size(), " values are given for ", axes, " spatial axes");
    for (size_t i = 0; i < axes; ++i)
      result[i] = each.size() == 1 ? each.Get(0) : each.Get(static_cast<int>(i));
  } else if (axes >= 2) {
    if (height) result[axes - 2] = *height;
    if (width) result[axes - 1] = *width;
  }
  return result;
}

/// `value` if `is_set`.
inline std::optional<int64_t> set_value(bool is_set, int64_t value) {
  return is_set ? std::optional(value) : std::nullopt;
}

/// 0, 1, ... , count - 1, as axes or orders of them.
std::vector<int64_t> counted(int64_t count, int64_t first = 0);

/// y = factor * x, and y = x + summand, with no node where nothing changes.
std::string times(GraphBuilder& graph, const std::string& x, double factor);
std::string plus(GraphBuilder& graph, const std::string& x, double summand);
/// ReLU with a slope for negative values.
std::string rectified(GraphBuilder& graph, const std::string& x, double slope,
                      std::string output = {});
/// Writes `x` as top i of the layer: the last node that an exporter adds where it could not name
/// its output.
void finish(const ExportedLayer& layer, GraphBuilder& graph, const std::string& x, size_t top = 0);

/// Bottom 0 at the places that bottom 1 has, in maps of the top's size; 0 elsewhere.
void export_by_places(const ExportedLayer& layer, GraphBuilder& graph);
/// The operator of the domain "crema" that stands for the layer: its settings as attributes, its
/// parameters behind its bottoms.
void export_custom(const ExportedLayer& layer, GraphBuilder& graph);

/// `map` (B, C, H, W), sampled linearly at rows `y` and columns `x` (B, M) in pixels: (B, C, M).
/// `border`: a point outside is moved to the border; else pixels outside are 0. `batch` is B, or -1
/// for one that is open.
std::string bilinear_sample(GraphBuilder& graph, const std::string& map, const std::string& y,
                            const std::string& x, int64_t batch, int64_t channels, int64_t height,
                            int64_t width, bool border);

}  // namespace crema::onnx
