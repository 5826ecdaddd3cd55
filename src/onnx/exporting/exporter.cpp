#include "onnx/exporting/exporter.hpp"

#include "crema/error.hpp"
#include "onnx/exporting/exporters/all.hpp"

namespace crema::onnx {

ExportedLayer::ExportedLayer(const Layer& layer, Names inputs, std::vector<Shape> bottoms,
                             Names outputs, std::vector<Shape> tops)
    : layer_(layer),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      bottoms_(std::move(bottoms)),
      tops_(std::move(tops)) {}

Array ExportedLayer::weight(size_t i) const {
  const Tensor& data = layer_.params()[i]->data;
  std::vector<double> values(static_cast<size_t>(data.count()));
  if (data.dtype() == DType::f64) {
    const double* const from = data.read<double>();
    values.assign(from, from + data.count());
  } else {
    const float* const from = data.read<float>();
    values.assign(from, from + data.count());
  }
  return Array::of_doubles(TensorProto::FLOAT, layer_.params()[i]->shape(), values);
}

const ExporterTable& ExporterTable::instance() {
  static const ExporterTable table;
  return table;
}

ExporterTable::ExporterTable() {
  add_pointwise_exporters(*this);
  add_arithmetic_exporters(*this);
  add_shape_exporters(*this);
  add_choice_exporters(*this);
  add_reduction_exporters(*this);
  add_norm_exporters(*this);
  add_convolution_exporters(*this);
  add_pooling_exporters(*this);
  add_resize_exporters(*this);
  add_sampling_exporters(*this);
  add_product_exporters(*this);
  add_recurrent_exporters(*this);
  add_sequence_exporters(*this);
  add_region_exporters(*this);
  add_detection_exporters(*this);
  add_custom_exporters(*this);
  const auto refuse = [&](std::initializer_list<const char*> types, const char* why) {
    for (const char* type : types) refused_[type] = why;
  };
  refuse({"Data", "AnnotatedData", "DenseImageData", "DummyData", "HDF5Data", "ImageData",
          "MemoryData", "VideoData", "WindowData", "DetectNetTransformation"},
         "reads data, which a model of ONNX takes as inputs; `crema deploy` makes the net for "
         "inference");
  refuse({"CenterLoss",
          "ContrastiveLoss",
          "CRFLoss",
          "CTCLoss",
          "CtcLoss",
          "WarpCTCLoss",
          "DiceLoss",
          "DiceCoefLoss",
          "EuclideanLoss",
          "FocalLoss",
          "HingeLoss",
          "InfogainLoss",
          "L1Loss",
          "MultiBoxLoss",
          "MultinomialLogisticLoss",
          "RegionLoss",
          "SigmoidCrossEntropyLoss",
          "SmoothL1Loss",
          "SmoothL1LossOHEM",
          "SoftmaxWithLoss",
          "SoftmaxWithLossOHEM",
          "TripletLoss",
          "Yolov3",
          "BoxAnnotatorOHEM",
          "MarginInnerProduct"},
         "is for training, and reads labels; `crema deploy` makes the net for inference, with the "
         "prediction in its place");
  refuse({"Accuracy", "ConfusionMatrix", "DetectionEvaluate", "EvalDetection"},
         "measures a net by labels; `crema deploy` makes the net for inference");
  refuse({"HDF5Output"}, "writes files, which no operator of ONNX does; remove the layer");
  refuse({"Python"}, "is a class of Python, of which ONNX knows nothing; write it as layers");
}

void ExporterTable::add(std::string_view type, Exporter exporter) {
  if (!exporters_.emplace(std::string(type), exporter).second)
    throw Error("layers of type ", type, " have two exporters");
}

Exporter ExporterTable::find(std::string_view type) const {
  const auto found = exporters_.find(type);
  return found == exporters_.end() ? nullptr : found->second;
}

std::vector<std::string> ExporterTable::types() const {
  std::vector<std::string> types;
  for (const auto& [type, exporter] : exporters_) types.push_back(type);
  return types;
}

std::string ExporterTable::why_not(std::string_view type) const {
  const auto found = refused_.find(type);
  return found == refused_.end() ? std::string() : found->second;
}

}  // namespace crema::onnx
