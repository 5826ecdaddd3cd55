// Every field of the old layers has a row here, and becomes what the row says.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;

/// A field in an old layer, and the layer that this becomes, without their names.
struct Row {
  std::string field;
  std::string old;      // what stands in the old layer, its type too
  std::string current;  // the same in `layer {}`
};

NetParameter parse(const std::string& text) {
  NetParameter net;
  parse_text_proto(text, "old.prototxt", net);
  return net;
}

void expect_equal(const NetParameter& actual, const NetParameter& expected) {
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(actual, expected))
      << "upgraded:\n"
      << actual.DebugString() << "expected:\n"
      << expected.DebugString();
}

/// `old` in the braces of an old layer.
void check_row(const Row& row, const std::string& begin, const std::string& end) {
  SCOPED_TRACE(row.field + ": " + row.old);
  NetParameter net = parse(begin + row.old + end);
  const google::protobuf::Message* layer = &net.layers(0);
  if (net.layers(0).has_layer() && row.field != "layer") layer = &net.layers(0).layer();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  layer->GetReflection()->ListFields(*layer, &set);
  bool has = false;
  for (const auto* field : set) has |= field->name() == row.field;
  EXPECT_TRUE(has) << "the row does not set its field";
  const NetUpgrade done = upgrade_net(net);
  EXPECT_TRUE(done.is_old);
  EXPECT_EQ(done.warnings, std::vector<std::string>());
  expect_equal(net, parse("layer { " + row.current + " }"));
}

void expect_all_fields(const Descriptor& type, const std::vector<Row>& rows) {
  std::set<std::string> tested;
  for (const Row& row : rows) tested.insert(row.field);
  for (int i = 0; i < type.field_count(); ++i) {
    EXPECT_TRUE(tested.count(type.field(i)->name()))
        << type.name() << "." << type.field(i)->name() << " has no row";
  }
}

const std::vector<Row>& v0_rows() {
  static const std::vector<Row> kRows = {
      {"name", "name: 'a' type: 'relu'", "name: 'a' type: 'ReLU'"},
      {"num_output", "type: 'conv' num_output: 3",
       "type: 'Convolution' convolution_param { num_output: 3 }"},
      {"num_output", "type: 'innerproduct' num_output: 3",
       "type: 'InnerProduct' inner_product_param { num_output: 3 }"},
      {"biasterm", "type: 'conv' biasterm: false",
       "type: 'Convolution' convolution_param { bias_term: false }"},
      {"biasterm", "type: 'innerproduct' biasterm: false",
       "type: 'InnerProduct' inner_product_param { bias_term: false }"},
      {"weight_filler", "type: 'conv' weight_filler { type: 'gaussian' std: 0.01 }",
       "type: 'Convolution' convolution_param { weight_filler { type: 'gaussian' std: 0.01 } }"},
      {"weight_filler", "type: 'innerproduct' weight_filler { type: 'xavier' }",
       "type: 'InnerProduct' inner_product_param { weight_filler { type: 'xavier' } }"},
      {"bias_filler", "type: 'conv' bias_filler { value: 1 }",
       "type: 'Convolution' convolution_param { bias_filler { value: 1 } }"},
      {"bias_filler", "type: 'innerproduct' bias_filler { value: 1 }",
       "type: 'InnerProduct' inner_product_param { bias_filler { value: 1 } }"},
      {"pad", "type: 'conv' pad: 2", "type: 'Convolution' convolution_param { pad: 2 }"},
      {"pad", "type: 'pool' pad: 1", "type: 'Pooling' pooling_param { pad: 1 }"},
      {"kernelsize", "type: 'conv' kernelsize: 5",
       "type: 'Convolution' convolution_param { kernel_size: 5 }"},
      {"kernelsize", "type: 'pool' kernelsize: 3",
       "type: 'Pooling' pooling_param { kernel_size: 3 }"},
      {"group", "type: 'conv' group: 2", "type: 'Convolution' convolution_param { group: 2 }"},
      {"stride", "type: 'conv' stride: 4", "type: 'Convolution' convolution_param { stride: 4 }"},
      {"stride", "type: 'pool' stride: 2", "type: 'Pooling' pooling_param { stride: 2 }"},
      {"pool", "type: 'pool' pool: MAX", "type: 'Pooling' pooling_param { pool: MAX }"},
      {"pool", "type: 'pool' pool: AVE", "type: 'Pooling' pooling_param { pool: AVE }"},
      {"pool", "type: 'pool' pool: STOCHASTIC",
       "type: 'Pooling' pooling_param { pool: STOCHASTIC }"},
      {"dropout_ratio", "type: 'dropout' dropout_ratio: 0.3",
       "type: 'Dropout' dropout_param { dropout_ratio: 0.3 }"},
      {"local_size", "type: 'lrn' local_size: 3", "type: 'LRN' lrn_param { local_size: 3 }"},
      {"alpha", "type: 'lrn' alpha: 0.0001", "type: 'LRN' lrn_param { alpha: 0.0001 }"},
      {"beta", "type: 'lrn' beta: 0.5", "type: 'LRN' lrn_param { beta: 0.5 }"},
      {"k", "type: 'lrn' k: 2", "type: 'LRN' lrn_param { k: 2 }"},
      {"source", "type: 'data' source: 'db'", "type: 'Data' data_param { source: 'db' }"},
      {"source", "type: 'hdf5_data' source: 'a.txt'",
       "type: 'HDF5Data' hdf5_data_param { source: 'a.txt' }"},
      {"source", "type: 'images' source: 'a.txt'",
       "type: 'ImageData' image_data_param { source: 'a.txt' }"},
      {"source", "type: 'window_data' source: 'a.txt'",
       "type: 'WindowData' window_data_param { source: 'a.txt' }"},
      {"source", "type: 'infogain_loss' source: 'm.binaryproto'",
       "type: 'InfogainLoss' infogain_loss_param { source: 'm.binaryproto' }"},
      {"scale", "type: 'data' scale: 0.5", "type: 'Data' transform_param { scale: 0.5 }"},
      {"meanfile", "type: 'images' meanfile: 'm'",
       "type: 'ImageData' transform_param { mean_file: 'm' }"},
      {"batchsize", "type: 'data' batchsize: 7", "type: 'Data' data_param { batch_size: 7 }"},
      {"batchsize", "type: 'hdf5_data' batchsize: 7",
       "type: 'HDF5Data' hdf5_data_param { batch_size: 7 }"},
      {"batchsize", "type: 'images' batchsize: 7",
       "type: 'ImageData' image_data_param { batch_size: 7 }"},
      {"batchsize", "type: 'window_data' batchsize: 7",
       "type: 'WindowData' window_data_param { batch_size: 7 }"},
      {"cropsize", "type: 'window_data' cropsize: 227",
       "type: 'WindowData' transform_param { crop_size: 227 }"},
      {"mirror", "type: 'data' mirror: true", "type: 'Data' transform_param { mirror: true }"},
      {"blobs", "type: 'conv' blobs { num: 1 channels: 1 height: 1 width: 2 data: 3 data: 4 }",
       "type: 'Convolution' blobs { num: 1 channels: 1 height: 1 width: 2 data: 3 data: 4 }"},
      {"blobs_lr", "type: 'conv' blobs_lr: 1 blobs_lr: 2",
       "type: 'Convolution' param { lr_mult: 1 } param { lr_mult: 2 }"},
      {"weight_decay", "type: 'conv' weight_decay: 1 weight_decay: 0",
       "type: 'Convolution' param { decay_mult: 1 } param { decay_mult: 0 }"},
      {"rand_skip", "type: 'data' rand_skip: 9", "type: 'Data' data_param { rand_skip: 9 }"},
      {"rand_skip", "type: 'images' rand_skip: 9",
       "type: 'ImageData' image_data_param { rand_skip: 9 }"},
      {"det_fg_threshold", "type: 'window_data' det_fg_threshold: 0.6",
       "type: 'WindowData' window_data_param { fg_threshold: 0.6 }"},
      {"det_bg_threshold", "type: 'window_data' det_bg_threshold: 0.4",
       "type: 'WindowData' window_data_param { bg_threshold: 0.4 }"},
      {"det_fg_fraction", "type: 'window_data' det_fg_fraction: 0.3",
       "type: 'WindowData' window_data_param { fg_fraction: 0.3 }"},
      {"det_context_pad", "type: 'window_data' det_context_pad: 16",
       "type: 'WindowData' window_data_param { context_pad: 16 }"},
      {"det_crop_mode", "type: 'window_data' det_crop_mode: 'square'",
       "type: 'WindowData' window_data_param { crop_mode: 'square' }"},
      {"new_num", "type: 'reshape' new_num: 2",
       "type: 'Reshape' reshape_param { shape { dim: 2 dim: 0 dim: 0 dim: 0 } }"},
      {"new_channels", "type: 'reshape' new_channels: 3",
       "type: 'Reshape' reshape_param { shape { dim: 0 dim: 3 dim: 0 dim: 0 } }"},
      {"new_height", "type: 'reshape' new_height: -1",
       "type: 'Reshape' reshape_param { shape { dim: 0 dim: 0 dim: -1 dim: 0 } }"},
      {"new_width", "type: 'reshape' new_width: 5",
       "type: 'Reshape' reshape_param { shape { dim: 0 dim: 0 dim: 0 dim: 5 } }"},
      {"new_height", "type: 'images' new_height: 256",
       "type: 'ImageData' image_data_param { new_height: 256 }"},
      {"new_width", "type: 'images' new_width: 256",
       "type: 'ImageData' image_data_param { new_width: 256 }"},
      {"shuffle_images", "type: 'images' shuffle_images: true",
       "type: 'ImageData' image_data_param { shuffle: true }"},
      {"concat_dim", "type: 'concat' concat_dim: 0",
       "type: 'Concat' concat_param { concat_dim: 0 }"},
      {"hdf5_output_param", "type: 'hdf5_output' hdf5_output_param { file_name: 'a.h5' }",
       "type: 'HDF5Output' hdf5_output_param { file_name: 'a.h5' }"},
      // All types that upgrade of V0 nets has been published for, and their successors.
      {"type", "type: 'accuracy'", "type: 'Accuracy'"},
      {"type", "type: 'bnll'", "type: 'BNLL'"},
      {"type", "type: 'concat'", "type: 'Concat'"},
      {"type", "type: 'conv'", "type: 'Convolution'"},
      {"type", "type: 'data'", "type: 'Data'"},
      {"type", "type: 'dropout'", "type: 'Dropout'"},
      {"type", "type: 'euclidean_loss'", "type: 'EuclideanLoss'"},
      {"type", "type: 'flatten'", "type: 'Flatten'"},
      {"type", "type: 'hdf5_data'", "type: 'HDF5Data'"},
      {"type", "type: 'hdf5_output'", "type: 'HDF5Output'"},
      {"type", "type: 'im2col'", "type: 'Im2col'"},
      {"type", "type: 'images'", "type: 'ImageData'"},
      {"type", "type: 'infogain_loss'", "type: 'InfogainLoss'"},
      {"type", "type: 'innerproduct'", "type: 'InnerProduct'"},
      {"type", "type: 'lrn'", "type: 'LRN'"},
      {"type", "type: 'multinomial_logistic_loss'", "type: 'MultinomialLogisticLoss'"},
      {"type", "type: 'pool'", "type: 'Pooling'"},
      {"type", "type: 'relu'", "type: 'ReLU'"},
      {"type", "type: 'sigmoid'", "type: 'Sigmoid'"},
      {"type", "type: 'softmax'", "type: 'Softmax'"},
      {"type", "type: 'softmax_loss'", "type: 'SoftmaxWithLoss'"},
      {"type", "type: 'split'", "type: 'Split'"},
      {"type", "type: 'tanh'", "type: 'TanH'"},
      {"type", "type: 'window_data'", "type: 'WindowData'"}};
  return kRows;
}

TEST(UpgradeFieldsTest, EveryFieldOfV0) {
  for (const Row& row : v0_rows()) check_row(row, "layers { layer { ", " } }");
  expect_all_fields(*V0LayerParameter::descriptor(), v0_rows());
}

/// Settings in a message that is the same in both formats.
Row same(const std::string& message, const std::string& type, const std::string& current_type,
         const std::string& settings) {
  const std::string text = message + " { " + settings + " }";
  return {message, "type: " + type + " " + text, "type: '" + current_type + "' " + text};
}

const std::vector<Row>& v1_rows() {
  static const std::vector<Row> kRows = {
      {"bottom", "type: RELU bottom: 'a' bottom: 'b'", "type: 'ReLU' bottom: 'a' bottom: 'b'"},
      {"top", "type: RELU top: 'a' top: 'b'", "type: 'ReLU' top: 'a' top: 'b'"},
      {"name", "type: RELU name: 'a'", "type: 'ReLU' name: 'a'"},
      {"include", "type: RELU include { phase: TEST } include { stage: 's' }",
       "type: 'ReLU' include { phase: TEST } include { stage: 's' }"},
      {"exclude", "type: RELU exclude { phase: TRAIN }", "type: 'ReLU' exclude { phase: TRAIN }"},
      {"blobs", "type: RELU blobs { num: 1 data: 2 diff: 3 } blobs { data: 4 }",
       "type: 'ReLU' blobs { num: 1 data: 2 diff: 3 } blobs { data: 4 }"},
      {"param", "type: CONVOLUTION param: 'w' param: 'b'",
       "type: 'Convolution' param { name: 'w' } param { name: 'b' }"},
      {"blob_share_mode", "type: CONVOLUTION blob_share_mode: PERMISSIVE blob_share_mode: STRICT",
       "type: 'Convolution' param { share_mode: PERMISSIVE } param { share_mode: STRICT }"},
      {"blobs_lr", "type: CONVOLUTION blobs_lr: 0 blobs_lr: 2 param: 'w'",
       "type: 'Convolution' param { name: 'w' lr_mult: 0 } param { lr_mult: 2 }"},
      {"weight_decay", "type: CONVOLUTION blobs_lr: 1 weight_decay: 1 weight_decay: 0",
       "type: 'Convolution' param { lr_mult: 1 decay_mult: 1 } param { decay_mult: 0 }"},
      {"loss_weight", "type: SOFTMAX_LOSS loss_weight: 0.5 loss_weight: 0",
       "type: 'SoftmaxWithLoss' loss_weight: 0.5 loss_weight: 0"},
      same("accuracy_param", "ACCURACY", "Accuracy", "top_k: 5"),
      same("argmax_param", "ARGMAX", "ArgMax", "out_max_val: true"),
      same("concat_param", "CONCAT", "Concat", "concat_dim: 0"),
      same("contrastive_loss_param", "CONTRASTIVE_LOSS", "ContrastiveLoss", "margin: 2"),
      same("convolution_param", "CONVOLUTION", "Convolution", "num_output: 2 kernel_h: 3"),
      same("data_param", "DATA", "Data", "source: 'a' batch_size: 2 backend: LMDB"),
      same("dropout_param", "DROPOUT", "Dropout", "dropout_ratio: 0.2"),
      same("dummy_data_param", "DUMMY_DATA", "DummyData", "num: 2 channels: 1"),
      same("eltwise_param", "ELTWISE", "Eltwise", "operation: PROD"),
      same("exp_param", "EXP", "Exp", "base: 2"),
      same("hdf5_data_param", "HDF5_DATA", "HDF5Data", "source: 'a' batch_size: 2"),
      same("hdf5_output_param", "HDF5_OUTPUT", "HDF5Output", "file_name: 'a'"),
      same("hinge_loss_param", "HINGE_LOSS", "HingeLoss", "norm: L2"),
      same("image_data_param", "IMAGE_DATA", "ImageData", "source: 'a' new_height: 2"),
      same("infogain_loss_param", "INFOGAIN_LOSS", "InfogainLoss", "source: 'a'"),
      same("inner_product_param", "INNER_PRODUCT", "InnerProduct", "num_output: 2"),
      same("lrn_param", "LRN", "LRN", "local_size: 3 norm_region: WITHIN_CHANNEL"),
      same("memory_data_param", "MEMORY_DATA", "MemoryData", "batch_size: 1 channels: 2"),
      same("mvn_param", "MVN", "MVN", "across_channels: true"),
      same("pooling_param", "POOLING", "Pooling", "pool: AVE kernel_size: 2"),
      same("power_param", "POWER", "Power", "power: 2"),
      same("relu_param", "RELU", "ReLU", "negative_slope: 0.1"),
      same("sigmoid_param", "SIGMOID", "Sigmoid", "engine: CAFFE"),
      same("softmax_param", "SOFTMAX", "Softmax", "engine: CAFFE"),
      same("slice_param", "SLICE", "Slice", "slice_dim: 1 slice_point: 2"),
      same("tanh_param", "TANH", "TanH", "engine: CAFFE"),
      same("threshold_param", "THRESHOLD", "Threshold", "threshold: 1"),
      same("window_data_param", "WINDOW_DATA", "WindowData", "source: 'a' batch_size: 2"),
      same("transform_param", "DATA", "Data", "scale: 0.5 mirror: true mean_value: 3"),
      same("loss_param", "SOFTMAX_LOSS", "SoftmaxWithLoss", "ignore_label: 1 normalize: false"),
      {"layer", "layer { type: 'relu' } include { phase: TEST } top: 'a'",
       "type: 'ReLU' include { phase: TEST } top: 'a'"},
      // Forks.
      same("bn_param", "BN", "BN", ""),
      same("crop_param", "CROP", "Crop", "axis: 1"),
      same("dense_image_data_param", "DENSE_IMAGE_DATA", "DenseImageData", "source: 'a'"),
      same("embed_param", "EMBED", "Embed", "input_dim: 2"),
      same("recurrent_param", "LSTM", "LSTM", "num_output: 2"),
      same("multi_stage_meanfield_param", "MULTI_STAGE_MEANFIELD", "MultiStageMeanfield", ""),
      same("prelu_param", "PRELU", "PReLU", "channel_shared: true"),
      same("python_param", "PYTHON", "Python", "module: 'a'"),
      same("reshape_param", "RESHAPE", "Reshape", "axis: 1"),
      same("roi_pooling_param", "ROI_POOLING", "ROIPooling", "pooled_h: 2"),
      same("smooth_l1_loss_param", "SMOOTH_L1_LOSS", "SmoothL1Loss", "sigma: 2"),
      same("spp_param", "SPP", "SPP", "pyramid_height: 2"),
      same("upsample_param", "UPSAMPLE", "Upsample", ""),
      same("video_data_param", "VIDEO_DATA", "VideoData", ""),
      // All types.
      {"type", "type: ABSVAL", "type: 'AbsVal'"},
      {"type", "type: ACCURACY", "type: 'Accuracy'"},
      {"type", "type: ARGMAX", "type: 'ArgMax'"},
      {"type", "type: BN", "type: 'BN'"},
      {"type", "type: BNLL", "type: 'BNLL'"},
      {"type", "type: CONCAT", "type: 'Concat'"},
      {"type", "type: CONTRASTIVE_LOSS", "type: 'ContrastiveLoss'"},
      {"type", "type: CONVOLUTION", "type: 'Convolution'"},
      {"type", "type: CROP", "type: 'Crop'"},
      {"type", "type: DATA", "type: 'Data'"},
      {"type", "type: DECONVOLUTION", "type: 'Deconvolution'"},
      {"type", "type: DENSE_IMAGE_DATA", "type: 'DenseImageData'"},
      {"type", "type: DROPOUT", "type: 'Dropout'"},
      {"type", "type: DUMMY_DATA", "type: 'DummyData'"},
      {"type", "type: ELTWISE", "type: 'Eltwise'"},
      {"type", "type: EMBED", "type: 'Embed'"},
      {"type", "type: EUCLIDEAN_LOSS", "type: 'EuclideanLoss'"},
      {"type", "type: EXP", "type: 'Exp'"},
      {"type", "type: FLATTEN", "type: 'Flatten'"},
      {"type", "type: HDF5_DATA", "type: 'HDF5Data'"},
      {"type", "type: HDF5_OUTPUT", "type: 'HDF5Output'"},
      {"type", "type: HINGE_LOSS", "type: 'HingeLoss'"},
      {"type", "type: IM2COL", "type: 'Im2col'"},
      {"type", "type: IMAGE_DATA", "type: 'ImageData'"},
      {"type", "type: INFOGAIN_LOSS", "type: 'InfogainLoss'"},
      {"type", "type: INNER_PRODUCT", "type: 'InnerProduct'"},
      {"type", "type: LRN", "type: 'LRN'"},
      {"type", "type: LSTM", "type: 'LSTM'"},
      {"type", "type: LSTM_UNIT", "type: 'LSTMUnit'"},
      {"type", "type: MEMORY_DATA", "type: 'MemoryData'"},
      {"type", "type: MULTINOMIAL_LOGISTIC_LOSS", "type: 'MultinomialLogisticLoss'"},
      {"type", "type: MULTI_STAGE_MEANFIELD", "type: 'MultiStageMeanfield'"},
      {"type", "type: MVN", "type: 'MVN'"},
      {"type", "type: POOLING", "type: 'Pooling'"},
      {"type", "type: POWER", "type: 'Power'"},
      {"type", "type: PRELU", "type: 'PReLU'"},
      {"type", "type: PYTHON", "type: 'Python'"},
      {"type", "type: RELU", "type: 'ReLU'"},
      {"type", "type: RESHAPE", "type: 'Reshape'"},
      {"type", "type: RNN", "type: 'RNN'"},
      {"type", "type: ROI_POOLING", "type: 'ROIPooling'"},
      {"type", "type: SIGMOID", "type: 'Sigmoid'"},
      {"type", "type: SIGMOID_CROSS_ENTROPY_LOSS", "type: 'SigmoidCrossEntropyLoss'"},
      {"type", "type: SILENCE", "type: 'Silence'"},
      {"type", "type: SLICE", "type: 'Slice'"},
      {"type", "type: SMOOTH_L1_LOSS", "type: 'SmoothL1Loss'"},
      {"type", "type: SOFTMAX", "type: 'Softmax'"},
      {"type", "type: SOFTMAX_LOSS", "type: 'SoftmaxWithLoss'"},
      {"type", "type: SPLIT", "type: 'Split'"},
      {"type", "type: SPP", "type: 'SPP'"},
      {"type", "type: TANH", "type: 'TanH'"},
      {"type", "type: THRESHOLD", "type: 'Threshold'"},
      {"type", "type: UPSAMPLE", "type: 'Upsample'"},
      {"type", "type: VIDEO_DATA", "type: 'VideoData'"},
      {"type", "type: WINDOW_DATA", "type: 'WindowData'"}};
  return kRows;
}

TEST(UpgradeFieldsTest, EveryFieldOfV1) {
  for (const Row& row : v1_rows()) check_row(row, "layers { ", " }");
  expect_all_fields(*V1LayerParameter::descriptor(), v1_rows());
}

TEST(UpgradeFieldsTest, EveryTypeOfV1HasARow) {
  std::set<std::string> tested;
  for (const Row& row : v1_rows()) {
    if (row.field == "type") tested.insert(row.old);
  }
  const auto* types = V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < types->value_count(); ++i) {
    const std::string& name = types->value(i)->name();
    EXPECT_TRUE(name == "NONE" || tested.count("type: " + name)) << name;
  }
}

}  // namespace
}  // namespace crema
