// A small net of each layer type for settings_effect_test.cpp.
#include "settings_effect.hpp"

namespace crema::test {
namespace {

const Input kImages = uniform({2, 4, 6, 5}), kRows = uniform({4, 6}, -2, 2);
const Input kClasses = given({4}, {1, 4, 1, 2}), kPositive = uniform({2, 4, 6, 5}, 0.5, 2);
const Input kVolumes = uniform({2, 4, 5, 6, 6});
const Input kSequences = uniform({4, 3, 5});
const Input kBegins = given({4, 3}, {0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1});
const char* const kXavier = "weight_filler { type: 'xavier' } ";

/// Priors of detectors: (1, 2, 4 P).
Input priors() {
  std::vector<double> values;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      const double x = 0.06 + 0.23 * column, y = 0.05 + 0.3 * row;
      const double shift = row == 2 && column > 0 ? 0.25 : 0;
      values.insert(values.end(), {x, y + shift, x + 0.2 + 0.01 * row, y + 0.25 + shift});
    }
  }
  for (int p = 0; p < 12; ++p) values.insert(values.end(), {0.1, 0.15, 0.2, 0.25});
  return given({1, 2, 48}, values);
}
Input truths() {
  return given({1, 1, 6, 8}, {0,  1, 0, 0.08, 0.07, 0.30, 0.31, 0,  //
                              0,  2, 0, 0.50, 0.33, 0.70, 0.66, 0,  //
                              2,  2, 0, 0.27, 0.06, 0.51, 0.30, 1,  //
                              -1, 0, 0, 0,    0,    0,    0,    0,  //
                              2,  1, 0, 0.30, 0.88, 0.52, 1.10, 0,  //
                              -1, 0, 0, 0,    0,    0,    0,    0});
}
/// Many boxes of one image, and others near them: (1, 1, 40, 8) and (1, 1, 40, 7).
Input many_truths() {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) {
    const double x = 0.12 * (i % 8), y = 0.19 * (i / 8);
    values.insert(values.end(), {0, 1.0 + i % 2, 0, x, y, x + 0.1, y + 0.16, i % 5 == 0 ? 1.0 : 0});
  }
  return given({1, 1, 40, 8}, values);
}
Input many_found() {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) {
    const double x = 0.12 * (i % 8) + 0.0018 * (i % 17), y = 0.19 * (i / 8) + 0.003 * (i % 13);
    values.insert(values.end(), {0, 1.0 + i % 2, 0.99 - 0.01 * i, x, y, x + 0.1, y + 0.16});
  }
  return given({1, 1, 40, 7}, values);
}

Input regions() { return given({3, 5}, {0, 1, 2, 20, 15, 1, 4, 0, 30, 22, 0, 8, 6, 13, 21}); }

void add_elementwise(std::vector<SettingsBase>& all) {
  for (const char* type :
       {"AbsVal", "BNLL",    "ELU",       "GELU",         "HardSigmoid",    "HardSwish",
        "Mish",   "ReLU",    "ReLU6",     "Sigmoid",      "Swish",          "TanH",
        "Power",  "Exp",     "PReLU",     "Dropout",      "SpatialDropout", "LRN",
        "MVN",    "Softmax", "Bias",      "Scale",        "BatchNorm",      "Flatten",
        "Flip",   "Reverse", "Reduction", "InstanceNorm", "LayerNorm",      "CumSum",
        "Reduce", "RMSNorm"}) {
    all.push_back({type, "", {kImages}});
  }
  all.push_back({"Threshold", "", {kImages}, 1, false});
  all.push_back({"Log", "", {kPositive}});
  all.push_back({"Clip", "clip_param { min: -0.5 max: 0.4 }", {kImages}});
  all.push_back({"Noise", "noise_param { std: 0.3 }", {kImages}});
  all.push_back({"GroupNorm", "group_norm_param { group: 2 }", {kImages}});
  all.push_back({"Normalize", "", {kImages}});
  all.push_back({"Eltwise", "", {kImages, kPositive}});
  all.push_back({"BN", "bn_param { slope_filler { value: 1 } }", {kImages}});
  all.push_back({"BN of scale and shift",
                 "bn_param { scale_filler { value: 1 } }",
                 {kImages},
                 1,
                 true,
                 "BN"});
  all.push_back({"Arithmetic", "", {kImages, kPositive}});
  all.push_back({"Where", "", {labels({2, 4, 6, 5}, 2), kImages, kPositive}});
  all.push_back({"Axpy", "", {uniform({2, 4}), kImages, kImages}});
}

void add_rearranging(std::vector<SettingsBase>& all) {
  all.push_back({"ArgMax", "", {kImages}, 1, false});
  all.push_back({"BatchReindex", "", {kImages, given({3}, {1, 0, 1})}});
  all.push_back({"Concat", "", {kImages, kImages}});
  all.push_back({"Crop", "", {kImages, uniform({2, 4, 3, 2})}});
  all.push_back({"Expand", "expand_param { dim: 2 dim: -1 dim: -1 dim: -1 dim: -1 }", {kImages}});
  all.push_back({"Filter", "", {kImages, given({2}, {0, 1})}});
  all.push_back({"Gather", "gather_param { index: 1 index: 0 }", {kImages}});
  all.push_back({"GridSample", "", {kImages, uniform({2, 3, 4, 2}, -1.3, 1.3)}});
  all.push_back({"Pad", "pad_param { begin: 1 begin: 2 end: 1 end: 1 }", {kImages}});
  all.push_back({"Permute", "permute_param { order: 0 order: 2 }", {kImages}});
  all.push_back({"Reorg", "reorg_param { stride: 2 }", {uniform({2, 4, 6, 4})}});
  all.push_back({"Repeat", "repeat_param { times: 2 }", {kImages}});
  all.push_back({"Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", {kImages}});
  all.push_back({"ShuffleChannel", "", {uniform({2, 6, 3, 3})}});
  all.push_back({"Silence", "", {kImages}, 0, false});
  all.push_back({"Slice", "", {kImages}, 2});
  all.push_back({"Slice in three", "", {uniform({6, 6, 6})}, 3, true, "Slice"});
  all.push_back({"Split", "", {kImages}, 2});
  all.push_back(
      {"StridedSlice", "strided_slice_param { axis: 2 begin: 0 end: 4 step: 2 }", {kImages}});
  all.push_back({"TopK", "topk_param { k: 2 }", {kImages}, 2});
  all.push_back({"Tile", "tile_param { tiles: 2 }", {kImages}});
  all.push_back({"Transpose", "transpose_param { dim: 1 dim: 0 dim: 2 dim: 3 }", {kImages}});
  all.push_back({"Parameter", "parameter_param { shape { dim: 3 dim: 2 } }"});
  all.push_back({"Input", "input_param { shape { dim: 3 dim: 2 } }", {}, 1, false});
  all.push_back(
      {"DummyData", "dummy_data_param { shape { dim: 3 dim: 2 dim: 1 dim: 1 } }", {}, 1, false});
  all.push_back({"DummyData of sizes",
                 "dummy_data_param { num: 2 channels: 3 height: 4 width: 5 }",
                 {},
                 1,
                 false,
                 "DummyData"});
  all.push_back({"ContinuationIndicator",
                 "continuation_indicator_param { time_step: 4 batch_size: 3 }",
                 {},
                 1,
                 false});
}

void add_windows(std::vector<SettingsBase>& all) {
  const auto convolution = [](const std::string& kernel) {
    return text("convolution_param { num_output: 8 ", kernel, " ", kXavier, "}");
  };
  for (const char* type : {"Convolution", "Deconvolution"}) {
    all.push_back({type, convolution("kernel_size: 3"), {kImages}});
    all.push_back({text(type, " of kernel_h"),
                   convolution("kernel_h: 3 kernel_w: 2"),
                   {kImages},
                   1,
                   true,
                   type});
  }
  for (const char* type : {"ConvolutionDepthwise", "DepthwiseConvolution"}) {
    all.push_back({type, convolution("kernel_size: 3"), {kImages}});
    all.push_back({text(type, " of kernel_h"),
                   convolution("kernel_h: 3 kernel_w: 2"),
                   {kImages},
                   1,
                   true,
                   type});
  }
  for (const auto& [name, kernel] :
       {std::pair{"DeformableConvolution", "kernel_size: 3"},
        std::pair{"DeformableConvolution of kernel_h", "kernel_h: 3 kernel_w: 3"}}) {
    all.push_back({name,
                   text("deformable_convolution_param { num_output: 8 ", kernel, " ", kXavier, "}"),
                   {kImages, uniform({2, 18, 4, 3})},
                   1,
                   true,
                   "DeformableConvolution"});
  }
  all.push_back({"Im2col", "convolution_param { kernel_size: 3 }", {kImages}});
  all.push_back({"Im2col of kernel_h",
                 "convolution_param { kernel_h: 3 kernel_w: 2 }",
                 {kImages},
                 1,
                 true,
                 "Im2col"});
  all.push_back(
      {"Convolution3D",
       text("convolution3d_param { num_output: 2 kernel_size: 3 kernel_depth: 2 ", kXavier, "}"),
       {kVolumes}});
  for (const char* type : {"LocallyConnected", "Local"}) {
    const auto local = [](const std::string& kernel) {
      return text("local_param { num_output: 3 ", kernel, " ", kXavier, "}");
    };
    all.push_back({type, local("kernel_size: 3"), {kImages}});
    all.push_back(
        {text(type, " of kernel_h"), local("kernel_h: 3 kernel_w: 2"), {kImages}, 1, true, type});
  }
  all.push_back({"Pooling", "pooling_param { kernel_size: 3 }", {kImages}});
  all.push_back({"Pooling of kernel_h",
                 "pooling_param { kernel_h: 3 kernel_w: 2 }",
                 {kImages},
                 1,
                 true,
                 "Pooling"});
  all.push_back({"Pooling of kernel_size_3d",
                 "pooling_param { kernel_size_3d: 2 kernel_size_3d: 3 kernel_size_3d: 3 }",
                 {kVolumes},
                 1,
                 true,
                 "Pooling"});
  all.push_back(
      {"Pooling of volumes", "pooling_param { kernel_size: 3 }", {kVolumes}, 1, true, "Pooling"});
  all.push_back({"Pooling without a kernel",
                 "pooling_param { global_pooling: true }",
                 {kImages},
                 1,
                 true,
                 "Pooling"});
  all.push_back({"Pooling3D", "pooling3d_param { kernel_size: 3 kernel_depth: 2 }", {kVolumes}});
  all.push_back({"SPP", "spp_param { pyramid_height: 2 }", {uniform({2, 4, 6, 4}, 0.5, 2)}});
  const Input places = given({2, 2, 2, 2}, {0, 3, 8, 10, 1, 2, 9, 11, 4, 6, 12, 15, 5, 7, 13, 14});
  all.push_back({"Unpooling",
                 "unpooling_param { kernel_size: 2 stride: 2 }",
                 {uniform({2, 2, 2, 2}), places}});
  all.push_back({"Unpooling without places",
                 "unpooling_param { unpool: TILE kernel_size: 3 stride: 2 }",
                 {uniform({2, 2, 3, 3})},
                 1,
                 true,
                 "Unpooling"});
  all.push_back({"Unpooling of kernel_h",
                 "unpooling_param { unpool: TILE kernel_h: 3 kernel_w: 2 }",
                 {uniform({2, 2, 3, 3})},
                 1,
                 true,
                 "Unpooling"});
  all.push_back({"Upsample", "", {uniform({2, 2, 2, 2}), places}});
  const Input few = given({2, 2, 2, 2}, {0, 1, 2, 4, 0, 1, 2, 4, 1, 0, 4, 2, 1, 0, 2, 4});
  all.push_back({"Upsample of few places", "", {uniform({2, 2, 2, 2}), few}, 1, true, "Upsample"});
  all.push_back({"Upsample to a size",
                 "upsample_param { upsample_h: 5 upsample_w: 5 }",
                 {uniform({2, 2, 2, 2}), few},
                 1,
                 true,
                 "Upsample"});
  all.push_back({"UpsampleDarknet", "", {kImages}});
  all.push_back({"Interp", "interp_param { height: 9 width: 7 }", {kImages}});
  all.push_back(
      {"Interp by factors", "interp_param { zoom_factor: 2 }", {kImages}, 1, true, "Interp"});
  all.push_back({"Resize", "resize_param { height: 9 width: 7 }", {kImages}});
  all.push_back({"Resize by factors", "resize_param { scale: 1.5 }", {kImages}, 1, true, "Resize"});
  all.push_back({"Resize by two factors",
                 "resize_param { scale_h: 1.5 scale_w: 2 }",
                 {kImages},
                 1,
                 true,
                 "Resize"});
  all.push_back({"ResizeNearestNeighbor",
                 "resize_nearest_neighbor_param { output_height: 9 output_width: 7 }",
                 {kImages}});
  all.push_back({"ResizeNearestNeighbor by factors",
                 "resize_nearest_neighbor_param { scaling_factor_height: 1.5 "
                 "scaling_factor_width: 2 }",
                 {kImages},
                 1,
                 true,
                 "ResizeNearestNeighbor"});
  all.push_back(
      {"SpatialTransformer", "st_param { output_H: 5 output_W: 4 }", {kImages, uniform({2, 6})}});
  all.push_back({"ROIPooling",
                 "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.25 }",
                 {uniform({2, 3, 6, 8}), regions()}});
  all.push_back({"ROIPooling of pooled_size",
                 "roi_pooling_param { pooled_size: 2 spatial_scale: 0.25 }",
                 {uniform({2, 3, 6, 8}), regions()},
                 1,
                 true,
                 "ROIPooling"});
  all.push_back({"ROIAlign",
                 "roi_align_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.25 }",
                 {uniform({2, 3, 6, 8}), regions()}});
  all.push_back({"PSROIAlign",
                 "psroi_align_param { spatial_scale: 0.25 output_dim: 2 group_size: 2 }",
                 {uniform({2, 8, 6, 8}), regions()}});
  all.push_back({"PSROIPooling",
                 "psroi_pooling_param { spatial_scale: 0.25 output_dim: 2 group_size: 2 }",
                 {uniform({2, 8, 6, 8}), regions()}});
}

void add_products(std::vector<SettingsBase>& all) {
  all.push_back(
      {"InnerProduct", text("inner_product_param { num_output: 3 ", kXavier, "}"), {kImages}});
  all.push_back({"Embed",
                 text("embed_param { input_dim: 7 num_output: 3 ", kXavier, "}"),
                 {labels({3, 2}, 7)}});
  all.push_back({"MatMul", "", {uniform({2, 4, 4}), uniform({2, 4, 4})}});
  all.push_back({"MarginInnerProduct",
                 text("margin_inner_product_param { num_output: 7 type: DOUBLE ", kXavier, "}"),
                 {kRows, kClasses}});
  all.push_back({"Attention", "", {uniform({2, 5, 8}), uniform({2, 4, 8}), uniform({2, 4, 8})}});
  all.push_back({"Attention to itself",
                 "",
                 {uniform({2, 5, 8}), uniform({2, 5, 8}), uniform({2, 5, 8})},
                 1,
                 true,
                 "Attention"});
  for (const char* type : {"LSTM", "RNN", "GRU"}) {
    const std::string settings = text("recurrent_param { num_output: 3 ", kXavier, "}");
    all.push_back({type, settings, {kSequences, kBegins}});
  }
  all.push_back(
      {"LSTMUnit", "", {uniform({1, 3, 2}), uniform({1, 3, 8}), given({1, 3}, {1, 0, 1})}, 2});
  all.push_back({"CRFLoss",
                 "crf_loss_param { transition_filler { type: 'gaussian' } }",
                 {kSequences, labels({4, 3}, 5), kBegins},
                 2});
  all.push_back({"CRFDecoder",
                 "crf_loss_param { transition_filler { type: 'gaussian' } }",
                 {kSequences},
                 1,
                 false});
  const auto of_onnx = [&](const std::string& name, const std::string& operation,
                           std::vector<Input> bottoms) {
    const size_t count = bottoms.size();
    std::string settings = "onnx_operator_param { opset: 13 op_type: '" + operation + "' ";
    for (size_t i = 0; i < count; ++i) settings += "bottom_type: FLOAT ";
    all.push_back({name, settings + "}", std::move(bottoms), 1, false, "OnnxOperator"});
  };
  of_onnx("OnnxOperator", "Hardmax", {kImages});
  of_onnx("OnnxOperator of two inputs", "Sub", {kRows, uniform({4, 6})});
  of_onnx("OnnxOperator with bounds", "Clip", {kImages});
  of_onnx("OnnxOperator of several outputs", "DynamicQuantizeLinear", {kImages});
  all.push_back({"CTCGreedyDecoder", "", {uniform({9, 3, 3}, -3, 3)}, 1, false});
  all.push_back(
      {"MultiStageMeanfield",
       "multi_stage_meanfield_param { theta_alpha: 3 theta_beta: 40 theta_gamma: 1.5 "
       "spatial_filter_weight: 3 bilateral_filter_weight: 5 num_iterations: 2 }",
       {uniform({2, 3, 4, 5}, -2, 2), uniform({2, 3, 4, 5}, -2, 2), labels({2, 3, 4, 5}, 200)}});
}

void add_losses(std::vector<SettingsBase>& all) {
  for (const char* type : {"SoftmaxWithLoss", "FocalLoss", "HingeLoss"}) {
    all.push_back({type, "", {kRows, kClasses}});
  }
  // Classes along two axes.
  const Input cube = uniform({6, 6, 6}), classes = labels({6, 6}, 6);
  for (const char* type : {"SoftmaxWithLoss", "FocalLoss"})
    all.push_back({text(type, " of a cube"), "", {cube, classes}, 1, true, type});
  all.push_back(
      {"InfogainLoss of a cube", "", {cube, classes, uniform({6, 6})}, 1, true, "InfogainLoss"});
  all.push_back({"SoftmaxWithLossOHEM", "", {kRows, kClasses}, 3});
  all.push_back(
      {"SoftmaxWithLossOHEM of a cube", "", {cube, classes}, 3, true, "SoftmaxWithLossOHEM"});
  all.push_back({"MultinomialLogisticLoss", "", {uniform({4, 6}, 0.1, 1), kClasses}});
  all.push_back({"InfogainLoss", "", {kRows, kClasses, uniform({6, 6})}});
  all.push_back({"InfogainLoss of a file",
                 "infogain_loss_param { source: '$DATA/matrix.binaryproto' }",
                 {kRows, kClasses},
                 1,
                 true,
                 "InfogainLoss"});
  all.push_back({"SigmoidCrossEntropyLoss", "", {kRows, labels({4, 6}, 2)}});
  all.push_back({"EuclideanLoss", "", {kRows, kRows}});
  all.push_back({"L1Loss", "", {kRows, uniform({4, 6})}});
  all.push_back({"SmoothL1Loss", "", {kRows, uniform({4, 6})}});
  all.push_back({"SmoothL1LossOHEM", "", {kImages, kPositive, kPositive}, 2});
  all.push_back({"ContrastiveLoss", "", {kRows, uniform({4, 6}), given({4}, {0, 1, 0, 1})}});
  all.push_back({"TripletLoss", "", {uniform({6, 4}), uniform({6, 4}), uniform({6, 4})}});
  for (const char* type : {"DiceLoss", "DiceCoefLoss"})
    all.push_back({type, "", {uniform({2, 3, 4}, 0.1, 1), labels({2, 3, 4}, 2)}});
  all.push_back({"CenterLoss",
                 "center_loss_param { num_output: 7 center_filler { type: 'xavier' } }",
                 {kRows, kClasses}});
  // The first label is too long for its steps.
  const Input steps = uniform({3, 3, 4}, -2, 2);
  const Input rows = given({3, 4}, {1, 2, 2, 1, 1, -1, -1, -1, 2, 1, -1, -1});
  for (const char* type : {"CTCLoss", "WarpCTCLoss", "CtcLoss"})
    all.push_back({type, "", {steps, rows}});
  all.push_back({"MultiBoxLoss",
                 "multibox_loss_param { num_classes: 3 }",
                 {uniform({3, 48}, -1.5, 1.5), uniform({3, 36}, -3, 3), priors(), truths()}});
  all.push_back({"MultiBoxLoss of all locations",
                 "multibox_loss_param { num_classes: 3 mining_type: NONE }",
                 {uniform({3, 48}, -1.5, 1.5), uniform({3, 36}, -3, 3), priors(), truths()},
                 1,
                 true,
                 "MultiBoxLoss"});
  const Input grid = uniform({1, 14, 3, 3}, -2, 2);
  const Input boxes = given({1, 10}, {1, 0.8, 0.4, 0.2, 0.9, 0, 0.3, 0.6, 0.4, 0.3});
  all.push_back({"RegionLoss",
                 "region_loss_param { side: 3 num_class: 2 num: 2 biases: 1 biases: 1 biases: 0.5 "
                 "biases: 1.5 }",
                 {grid, boxes}});
  all.push_back({"Yolov3",
                 "yolov3_param { side: 3 num_class: 2 num: 2 anchors_scale: 8 biases: 8 biases: 8 "
                 "biases: 40 biases: 40 biases: 4 biases: 12 mask: 0 mask: 2 }",
                 {grid, boxes}});
  all.push_back({"BoxAnnotatorOHEM",
                 "box_annotator_ohem_param { roi_per_img: 2 }",
                 {given({5, 5}, {0, 1, 1, 2, 2, 1, 1, 1, 2, 2, 0, 1, 1, 2, 2,  //
                                 0, 1, 1, 2, 2, 1, 1, 1, 2, 2}),
                  given({5, 1}, {1, 5, 3, 2, 0}), given({5, 1}, {3, 4, 5, 6, 7}), uniform({5, 2})},
                 2,
                 false});
}

void add_measures(std::vector<SettingsBase>& all) {
  all.push_back({"Accuracy", "", {kRows, kClasses}, 2, false});
  all.push_back(
      {"Accuracy of a cube", "", {uniform({6, 6, 6}), labels({6, 6}, 6)}, 2, false, "Accuracy"});
  all.push_back({"ConfusionMatrix", "", {kRows, kClasses}, 1, false});
  all.push_back({"ConfusionMatrix of a cube",
                 "",
                 {uniform({6, 6, 6}), labels({6, 6}, 6)},
                 1,
                 false,
                 "ConfusionMatrix"});
  all.push_back({"DetectionEvaluate",
                 "detection_evaluate_param { num_classes: 3 }",
                 {many_found(), many_truths()},
                 1,
                 false});
  all.push_back({"DetectionOutput",
                 "detection_output_param { num_classes: 3 nms_param { nms_threshold: 0.45 } }",
                 {uniform({2, 48}, -0.5, 0.5), uniform({2, 36}, 0, 1), priors()},
                 1,
                 false});
  all.push_back({"RegionDetectionOutput",
                 "region_detection_output_param { num_classes: 2 num_box: 2 biases: 1 biases: 1 "
                 "biases: 0.5 biases: 1.5 }",
                 {uniform({2, 14, 3, 3}, -2, 2)},
                 1,
                 false});
  all.push_back({"Yolov3DetectionOutput",
                 "yolov3_detection_output_param { num_classes: 2 num_box: 1 mask: 1 mask: 0 "
                 "anchors_scale: 8 anchors_scale: 4 biases: 8 biases: 8 biases: 4 biases: 12 }",
                 {uniform({2, 7, 2, 3}, -2, 2), uniform({2, 7, 4, 6}, -2, 2)},
                 1,
                 false});
  all.push_back({"PriorBox",
                 "prior_box_param { min_size: 4 }",
                 {uniform({1, 1, 2, 2}), uniform({1, 3, 20, 40})},
                 1,
                 false});
  all.push_back({"PriorBoxClustered",
                 "prior_box_param { width: 4 height: 6 }",
                 {uniform({1, 1, 2, 2}), uniform({1, 3, 20, 40})},
                 1,
                 false});
  all.push_back(
      {"Proposal",
       "proposal_param { ratio: 1 scale: 1 base_size: 16 min_size: 4 post_nms_topn: 20 }",
       {uniform({1, 2, 4, 5}, 0, 1), uniform({1, 4, 4, 5}, -0.5, 0.5), given({1, 3}, {60, 75, 1})},
       2,
       false});
}

void add_sources(std::vector<SettingsBase>& all) {
  const std::string data = "data_param { source: '$DATA/";
  all.push_back({"Data", data + "db' backend: LMDB batch_size: 4 }", {}, 2, false});
  all.push_back({"Data of a list",
                 data + "list.txt' root_folder: '$DATA/images' backend: IMAGE_LIST "
                        "batch_size: 4 }",
                 {},
                 2,
                 false,
                 "Data"});
  all.push_back(
      {"Data of classes", data + "classes' backend: FOLDER batch_size: 4 }", {}, 2, false, "Data"});
  all.push_back(
      {"Data of images", data + "encoded' backend: LMDB batch_size: 4 }", {}, 2, false, "Data"});
  all.push_back(
      {"Data of gray images", data + "gray' backend: LMDB batch_size: 4 }", {}, 2, false, "Data"});
  all.push_back({"Data of bad images",
                 data + "bad' backend: LMDB batch_size: 4 on_bad_record: SKIP }",
                 {},
                 2,
                 false,
                 "Data"});
  all.push_back({"AnnotatedData of gray images",
                 data + "gray_boxes' backend: LMDB batch_size: 4 }",
                 {},
                 2,
                 false,
                 "AnnotatedData"});
  all.push_back({"AnnotatedData", data + "boxes' backend: LMDB batch_size: 4 }", {}, 2, false});
  const std::string list = "source: '$DATA/list.txt' root_folder: '$DATA/images/' batch_size: 4 ";
  all.push_back({"AnnotatedData of bad records",
                 data + "bad_boxes' backend: LMDB batch_size: 4 on_bad_record: SKIP }",
                 {},
                 2,
                 false,
                 "AnnotatedData"});
  all.push_back({"AnnotatedData without a type",
                 data + "no_type' backend: LMDB batch_size: 4 }",
                 {},
                 2,
                 false,
                 "AnnotatedData"});
  all.push_back({"ImageData", text("image_data_param { ", list, "}"), {}, 2, false});
  all.push_back({"ImageData of bad images",
                 "image_data_param { source: '$DATA/bad_list.txt' root_folder: '$DATA/images/' "
                 "batch_size: 4 on_bad_record: SKIP }",
                 {},
                 2,
                 false,
                 "ImageData"});
  all.push_back({"DenseImageData",
                 "dense_image_data_param { source: '$DATA/dense.txt' root_folder: '$DATA/images/' "
                 "batch_size: 4 }",
                 {},
                 2,
                 false});
  all.push_back({"WindowData",
                 "window_data_param { source: '$DATA/windows.txt' root_folder: '$DATA/images/' "
                 "batch_size: 4 } transform_param { crop_size: 8 }",
                 {},
                 2,
                 false});
  all.push_back({"MemoryData of gray images",
                 "memory_data_param { batch_size: 2 channels: 1 height: 6 width: 6 } "
                 "transform_param { crop_size: 6 }",
                 {},
                 2,
                 false,
                 "MemoryData"});
  all.push_back({"MemoryData",
                 "memory_data_param { batch_size: 2 channels: 3 height: 6 width: 6 } "
                 "transform_param { crop_size: 6 }",
                 {},
                 2,
                 false});
  all.push_back(
      {"HDF5Data", "hdf5_data_param { source: '$DATA/hdf5.txt' batch_size: 3 }", {}, 2, false});
  all.push_back(
      {"HDF5Output", "hdf5_output_param { file_name: '$OUT/a.h5' }", {kRows, kClasses}, 0, false});
}

}  // namespace

const std::vector<SettingsBase>& settings_bases() {
  static const std::vector<SettingsBase> bases = [] {
    std::vector<SettingsBase> all;
    add_elementwise(all);
    add_rearranging(all);
    add_windows(all);
    add_products(all);
    add_losses(all);
    add_measures(all);
    add_sources(all);
    return all;
  }();
  return bases;
}

}  // namespace crema::test
