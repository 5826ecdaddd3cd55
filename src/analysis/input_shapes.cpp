#include "analysis/input_shapes.hpp"

#include <optional>

#include "crema/net.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// What a net of this layer alone gives.
std::vector<Shape> shapes_of_data(const LayerParameter& source, Context& context) {
  NetParameter param;
  LayerParameter& layer = *param.add_layer();
  layer = source;
  for (auto* rules : {layer.mutable_include(), layer.mutable_exclude()}) rules->Clear();
  Net net(param, context, {.phase = Phase::test, .fuse = false});
  std::vector<Shape> shapes;
  for (const std::string& top : source.top()) shapes.push_back(net.blob(top).shape());
  return shapes;
}

struct Size {
  int64_t height = 0, width = 0;
};

/// Of the images that the settings make.
std::optional<Size> size_of_settings(const LayerParameter& source) {
  const TransformationParameter& transform = source.transform_param();
  const auto square = [](uint32_t side) { return Size{side, side}; };
  if (transform.crop_size() > 0) return square(transform.crop_size());
  if (transform.crop_h() > 0 && transform.crop_w() > 0)
    return Size{transform.crop_h(), transform.crop_w()};
  for (const uint32_t crop :
       {source.data_param().crop_size(), source.image_data_param().crop_size(),
        source.dense_image_data_param().crop_size(), source.window_data_param().crop_size()}) {
    if (crop > 0) return square(crop);
  }
  const auto padded = [&](int64_t height, int64_t width) {
    return Size{height + 2 * transform.pad(), width + 2 * transform.pad()};
  };
  if (transform.resize_param_size() == 1) {
    const ResizeParameter& resize = transform.resize_param(0);
    if (resize.resize_mode() != ResizeParameter::FIT_SMALL_SIZE && resize.height() > 0 &&
        resize.width() > 0)
      return padded(resize.height(), resize.width());
  }
  const ImageDataParameter& images = source.image_data_param();
  if (images.new_height() > 0 && images.new_width() > 0)
    return padded(images.new_height(), images.new_width());
  const DenseImageDataParameter& dense = source.dense_image_data_param();
  if (dense.new_height() > 0 && dense.new_width() > 0)
    return padded(dense.new_height(), dense.new_width());
  return std::nullopt;
}

/// Published: images have three channels, unless a setting says otherwise.
int64_t channels_of_settings(const LayerParameter& source, bool& guessed) {
  const TransformationParameter& transform = source.transform_param();
  if (transform.force_gray() ||
      (source.has_image_data_param() && !source.image_data_param().is_color()) ||
      (source.has_dense_image_data_param() && !source.dense_image_data_param().is_color()))
    return 1;
  guessed = !transform.force_color() && transform.mean_value_size() < 2 && source.has_data_param();
  return transform.mean_value_size() > 1 ? transform.mean_value_size() : 3;
}

}  // namespace

int64_t batch_of_settings(const LayerParameter& source) {
  if (source.has_data_param()) return source.data_param().batch_size();
  if (source.has_image_data_param()) return source.image_data_param().batch_size();
  if (source.has_dense_image_data_param()) return source.dense_image_data_param().batch_size();
  if (source.has_window_data_param()) return source.window_data_param().batch_size();
  if (source.has_hdf5_data_param()) return source.hdf5_data_param().batch_size();
  if (source.has_memory_data_param()) return source.memory_data_param().batch_size();
  return 1;
}

bool gives_images(const LayerParameter& source) {
  return source.has_data_param() || source.has_image_data_param() ||
         source.has_dense_image_data_param() || source.has_window_data_param() ||
         source.has_memory_data_param();
}

SourceShapes shapes_of_source(const LayerParameter& source, Context& context) {
  SourceShapes shapes;
  try {
    shapes.tops = shapes_of_data(source, context);
    return shapes;
  } catch (const Error& error) {
    shapes.why = text("its data cannot be read (", error.message(), ")");
  }
  shapes.tops.resize(static_cast<size_t>(source.top_size()));
  const std::optional<Size> size = size_of_settings(source);
  if (!size) {
    shapes.why += ", and its settings name no size";
    return shapes;
  }
  bool guessed = false;
  const int64_t channels = channels_of_settings(source, guessed);
  shapes.tops[0] = {std::max<int64_t>(batch_of_settings(source), 1), channels, size->height,
                    size->width};
  if (guessed)
    shapes.assumed = text("the data of layer '", source.name(), "' are not here: '", source.top(0),
                          "' is taken to have 3 channels");
  return shapes;
}

}  // namespace crema
