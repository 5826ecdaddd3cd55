// The importers of each file of this folder.
#pragma once

#include "onnx/importing/layer_writer.hpp"

namespace crema::onnx {

void add_layer_importers(ImporterTable& table);
void add_activation_importers(ImporterTable& table);
void add_arithmetic_importers(ImporterTable& table);
void add_convolution_importers(ImporterTable& table);
void add_pooling_importers(ImporterTable& table);
void add_product_importers(ImporterTable& table);
void add_norm_importers(ImporterTable& table);
void add_shape_importers(ImporterTable& table);
void add_slicing_importers(ImporterTable& table);
void add_reduction_importers(ImporterTable& table);
void add_resize_importers(ImporterTable& table);
void add_region_importers(ImporterTable& table);

}  // namespace crema::onnx
