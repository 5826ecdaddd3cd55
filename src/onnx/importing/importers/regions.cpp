// Regions of maps, and samples at points.
#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

void import_roi_align(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  if (call.get_string("mode", "avg") != "avg") give_up("the greatest sample");
  const std::string coordinates = call.get_string(
      "coordinate_transformation_mode", node.opset >= 16 ? "half_pixel" : "output_half_pixel");
  const Shape& regions = node.input(1)->shape();
  if (regions.rank() != 2 || regions[0] == 0) give_up("regions of ", regions.str());
  // The layer has the number of the image in front of the corners.
  const std::string images = writer.inner_blob(node, "images");
  const std::string rows = writer.inner_blob(node, "rows");
  add_reshape(node, writer, node.input(2), node.input(2)->shape(), images, Shape{regions[0], 1},
              "images");
  writer.add(node, "Concat", {images, node.input(1)}, {rows}, "rows")
      .mutable_concat_param()
      ->set_axis(1);
  ROIAlignParameter& settings =
      *writer.add(node, "ROIAlign", {node.input(0), rows}, {node.output()})
           .mutable_roi_align_param();
  settings.set_pooled_h(as_setting(call.get_int("output_height", 1)));
  settings.set_pooled_w(as_setting(call.get_int("output_width", 1)));
  settings.set_spatial_scale(static_cast<float>(call.get_float("spatial_scale", 1)));
  settings.set_sampling_ratio(as_setting(call.get_int("sampling_ratio", 0)));
  if (coordinates == "half_pixel") settings.set_aligned(true);
}

void import_max_roi_pool(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const std::vector<int64_t> size = call.get_ints("pooled_shape");
  if (size.size() != 2) give_up("a grid of ", size.size(), " axes");
  ROIPoolingParameter& settings =
      *writer.add(node, "ROIPooling", {node.input(0), node.input(1)}, {node.output()})
           .mutable_roi_pooling_param();
  settings.set_pooled_h(as_setting(size[0]));
  settings.set_pooled_w(as_setting(size[1]));
  settings.set_spatial_scale(static_cast<float>(call.get_float("spatial_scale", 1)));
}

void import_grid_sample(const Node& node, LayerWriter& writer) {
  need_floats(node);
  if (node.input(0)->shape().rank() != 4) give_up("maps of another form than images have");
  const Call call = node.call();
  const std::string mode = call.get_string("mode", node.opset >= 20 ? "linear" : "bilinear");
  const std::string padding = call.get_string("padding_mode", "zeros");
  GridSampleParameter settings;
  if (mode == "nearest") settings.set_mode(GridSampleParameter::NEAREST);
  if (mode == "cubic" || mode == "bicubic") settings.set_mode(GridSampleParameter::BICUBIC);
  if (padding == "border") settings.set_padding(GridSampleParameter::BORDER);
  if (padding == "reflection") settings.set_padding(GridSampleParameter::REFLECTION);
  if (call.get_int("align_corners", 0) != 0) settings.set_align_corners(true);
  *writer.add(node, "GridSample", {node.input(0), node.input(1)}, {node.output()})
       .mutable_grid_sample_param() = settings;
}

}  // namespace

void add_region_importers(ImporterTable& table) {
  table.add("RoiAlign", import_roi_align);
  table.add("MaxRoiPool", import_max_roi_pool);
  table.add("GridSample", import_grid_sample);
}

}  // namespace crema::onnx
