// The files of this folder, each with the exporters of one kind of layers.
#pragma once

namespace crema::onnx {

class ExporterTable;

void add_pointwise_exporters(ExporterTable& table);
void add_arithmetic_exporters(ExporterTable& table);
void add_shape_exporters(ExporterTable& table);
void add_choice_exporters(ExporterTable& table);
void add_reduction_exporters(ExporterTable& table);
void add_norm_exporters(ExporterTable& table);
void add_convolution_exporters(ExporterTable& table);
void add_pooling_exporters(ExporterTable& table);
void add_resize_exporters(ExporterTable& table);
void add_sampling_exporters(ExporterTable& table);
void add_product_exporters(ExporterTable& table);
void add_recurrent_exporters(ExporterTable& table);
void add_sequence_exporters(ExporterTable& table);
void add_region_exporters(ExporterTable& table);
void add_detection_exporters(ExporterTable& table);
void add_custom_exporters(ExporterTable& table);

}  // namespace crema::onnx
