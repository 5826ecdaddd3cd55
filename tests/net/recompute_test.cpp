// `recompute: true` changes no bit of what is computed: over every layer type that trains, and over
// layers that are fused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "crema/parameter_arena.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

/// A layer of a type in a small net. Its bottoms are first tops of layers that learn, then data.
struct Row {
  std::string type;
  std::vector<Input> learned;
  std::vector<Input> data = {};
  std::string settings = {};
  int tops = 1;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.type << " " << row.settings; }

const std::string kFiller = "weight_filler { type: 'uniform' min: -0.5 max: 0.5 } ";

/// The types that do not train: sources, and layers without gradient.
const std::set<std::string>& idle_types() {
  static const std::set<std::string> types = {"Accuracy",
                                              "AnnotatedData",
                                              "ArgMax",
                                              "BoxAnnotatorOHEM",
                                              "CRFDecoder",
                                              "CTCGreedyDecoder",
                                              "ConfusionMatrix",
                                              "ContinuationIndicator",
                                              "Data",
                                              "DenseImageData",
                                              "DetectNetTransformation",
                                              "DetectionEvaluate",
                                              "DetectionOutput",
                                              "DummyData",
                                              "EvalDetection",
                                              "HDF5Data",
                                              "HDF5Output",
                                              "ImageData",
                                              "Input",
                                              "MemoryData",
                                              "OnnxOperator",
                                              "PriorBox",
                                              "PriorBoxClustered",
                                              "Proposal",
                                              "Python",
                                              "RegionDetectionOutput",
                                              "Silence",
                                              "Threshold",
                                              "VideoData",
                                              "WindowData",
                                              "Yolov3DetectionOutput"};
  return types;
}

std::vector<Row> pointwise_rows() {
  const Input x = uniform({2, 3, 4, 5});
  std::vector<Row> rows;
  for (const char* type : {"AbsVal", "BNLL", "ELU", "Exp", "GELU", "HardSigmoid", "HardSwish",
                           "Mish", "PReLU", "Power", "ReLU", "ReLU6", "Sigmoid", "Swish", "TanH"})
    rows.push_back({type, {x}});
  rows.push_back({"Clip", {x}, {}, "clip_param { min: -0.5 max: 0.5 }"});
  rows.push_back({"Dropout", {x}});
  rows.push_back({"Log", {uniform({2, 3, 4, 5}, 0.5, 2)}});
  rows.push_back({"Noise", {x}, {}, "noise_param { std: 0.2 }"});
  rows.push_back({"SpatialDropout", {x}});
  return rows;
}

std::vector<Row> moving_rows() {
  const Input x = uniform({2, 4, 6, 4}), sequence = uniform({2, 3, 4});
  return {
      {"BatchReindex", {sequence}, {given({3}, {1, 0, 1})}},
      {"Concat", {x, x}},
      {"CumSum", {sequence}},
      {"Crop", {x}, {uniform({2, 4, 3, 2})}, "crop_param { offset: 1 }"},
      {"Expand", {uniform({2, 1, 4})}, {}, "expand_param { dim: 3 dim: -1 }"},
      {"Filter", {uniform({3, 2, 4})}, {given({3}, {1, 0, 1})}},
      {"Flatten", {x}},
      {"Flip", {x}},
      {"Gather", {sequence}, {given({3}, {1, 0, 1})}, "gather_param { axis: 1 }"},
      {"Im2col", {x}, {}, "convolution_param { kernel_size: 3 }"},
      {"Pad", {x}, {}, "pad_param { begin: 1 begin: 2 end: 1 end: 0 mode: REFLECT }"},
      {"Permute", {x}, {}, "permute_param { order: 0 order: 2 order: 3 order: 1 }"},
      {"Repeat", {sequence}, {}, "repeat_param { axis: 1 times: 2 }"},
      {"Reorg", {x}, {}, "reorg_param { stride: 2 }"},
      {"Reshape", {x}, {}, "reshape_param { shape { dim: 0 dim: -1 } }"},
      {"Reverse", {sequence}},
      {"ShuffleChannel", {x}, {}, "shuffle_channel_param { group: 2 }"},
      {"Slice", {x}, {}, "", 2},
      {"Split", {x}, {}, "", 2},
      {"StridedSlice", {x}, {}, "strided_slice_param { axis: 2 begin: 5 end: -9 step: -2 }"},
      {"Tile", {sequence}, {}, "tile_param { tiles: 2 }"},
      {"TopK", {sequence}, {}, "topk_param { k: 2 }"},
      {"Transpose", {sequence}, {}, "transpose_param { dim: 2 dim: 0 dim: 1 }"},
  };
}

std::vector<Row> map_rows() {
  const Input x = uniform({2, 4, 6, 6}), volume = uniform({2, 2, 4, 5, 5});
  const Input positive = uniform({2, 4, 6, 6}, 0.1, 1);
  const Input regions = given({2, 5}, {0, 0, 0, 3, 3, 1, 1, 1, 4, 5});
  const std::string window = "kernel_size: 3 ", conv = "num_output: 4 " + window + kFiller;
  return {
      {"Convolution", {x}, {}, "convolution_param { pad: 1 " + conv + "}"},
      {"Convolution", {x}, {}, "convolution_param { num_output: 8 kernel_size: 1 " + kFiller + "}"},
      {"Convolution3D", {volume}, {}, "convolution3d_param { kernel_depth: 2 " + conv + "}"},
      {"ConvolutionDepthwise", {x}, {}, "convolution_param { " + conv + "}"},
      {"Deconvolution", {x}, {}, "convolution_param { " + conv + "}"},
      {"DeformableConvolution",
       {x, uniform({2, 18, 4, 4}, -0.4, 0.4)},
       {},
       "deformable_convolution_param { " + conv + "}"},
      {"DepthwiseConvolution", {x}, {}, "convolution_param { " + conv + "}"},
      {"GridSample", {x, uniform({2, 3, 4, 2})}},
      {"Interp", {x}, {}, "interp_param { zoom_factor: 2 }"},
      {"LRN", {x}},
      {"LRN", {x}, {}, "lrn_param { norm_region: WITHIN_CHANNEL }"},
      {"Local", {x}, {}, "local_param { " + conv + "}"},
      {"LocallyConnected", {x}, {}, "local_param { " + conv + "}"},
      {"PSROIAlign",
       {uniform({2, 8, 6, 6})},
       {regions},
       "psroi_align_param { output_dim: 2 group_size: 2 }"},
      {"PSROIPooling",
       {uniform({2, 8, 6, 6})},
       {regions},
       "psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 2 }"},
      {"Pooling", {x}, {}, "pooling_param { kernel_size: 2 stride: 2 }"},
      {"Pooling", {x}, {}, "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"},
      {"Pooling", {positive}, {}, "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }"},
      {"Pooling3D", {volume}, {}, "pooling3d_param { kernel_depth: 2 " + window + "}"},
      {"ROIAlign", {x}, {regions}, "roi_align_param { pooled_h: 2 pooled_w: 2 }"},
      {"ROIPooling", {x}, {regions}, "roi_pooling_param { pooled_h: 2 pooled_w: 2 }"},
      {"Resize", {x}, {}, "resize_param { scale: 2 }"},
      {"ResizeNearestNeighbor",
       {x},
       {},
       "resize_nearest_neighbor_param { scaling_factor_height: 2 scaling_factor_width: 2 }"},
      {"SPP", {x}, {}, "spp_param { pyramid_height: 2 }"},
      {"SpatialTransformer", {x, uniform({2, 6})}, {}, "st_param { output_H: 4 output_W: 5 }"},
      {"Unpooling", {x}, {}, "unpooling_param { unpool: AVE kernel_size: 3 stride: 2 pad: 1 }"},
      {"Upsample", {uniform({1, 1, 1, 3})}, {given({1, 1, 1, 3}, {0, 3, 9})}},
      {"UpsampleDarknet", {x}},
  };
}

std::vector<Row> other_rows() {
  const Input x = uniform({2, 4, 6, 6}), rows = uniform({4, 3});
  const Input steps = uniform({3, 2, 4}), cont = given({3, 2}, {0, 0, 1, 1, 1, 0});
  const std::string recurrent = "recurrent_param { num_output: 3 " + kFiller + "}";
  return {
      {"Arithmetic", {x, uniform({6, 1})}},
      {"Arithmetic", {x, uniform({1, 6})}, {}, "arithmetic_param { operation: MUL }"},
      {"Arithmetic", {x, x}, {}, "arithmetic_param { operation: MAX }"},
      {"Attention",
       {uniform({2, 3, 4}), uniform({2, 5, 4}), uniform({2, 5, 4})},
       {},
       "attention_param { num_heads: 2 dropout_ratio: 0.25 }"},
      {"Axpy", {uniform({2, 4}), x, x}},
      {"BN", {x}},
      {"BatchNorm", {x}},
      {"BatchNorm", {x}, {}, "batch_norm_param { use_global_stats: true eps: 1 }"},
      {"Bias", {x}},
      {"Eltwise", {x, x}},
      {"Eltwise", {x, x}, {}, "eltwise_param { operation: PROD }"},
      {"Eltwise", {x, x}, {}, "eltwise_param { operation: MAX }"},
      {"Embed", {}, {labels({4}, 3)}, "embed_param { input_dim: 3 num_output: 2 " + kFiller + "}"},
      {"GRU", {steps}, {cont}, recurrent},
      {"GroupNorm", {x}, {}, "group_norm_param { group: 2 }"},
      {"InnerProduct", {x}, {}, "inner_product_param { num_output: 3 " + kFiller + "}"},
      {"InstanceNorm", {x}},
      {"LSTM", {steps}, {cont}, recurrent},
      {"LSTMUnit", {uniform({1, 2, 3}), uniform({1, 2, 12})}, {given({1, 2}, {1, 0})}, "", 2},
      {"LayerNorm", {x}},
      {"MVN", {x}},
      {"MarginInnerProduct",
       {rows},
       {labels({4}, 3)},
       "margin_inner_product_param { num_output: 3 " + kFiller + "}"},
      {"MatMul", {uniform({2, 3, 4}), uniform({2, 4, 5})}},
      {"MultiStageMeanfield",
       {x, x},
       {uniform({2, 3, 6, 6}, 0, 255)},
       "multi_stage_meanfield_param { num_iterations: 2 theta_alpha: 3 theta_beta: 40 theta_gamma: "
       "1.5 spatial_filter_weight: 3 bilateral_filter_weight: 5 }"},
      {"Normalize", {x}},
      {"Parameter", {}, {}, "parameter_param { shape { dim: 2 dim: 3 } }"},
      {"RMSNorm", {x}},
      {"RNN", {steps}, {cont}, recurrent},
      {"Reduce", {x}, {}, "reduce_param { operation: L2 axis: 1 axis: 3 }"},
      {"Reduce", {x}, {}, "reduce_param { operation: LOG_SUM_EXP axis: 0 }"},
      {"Reduction", {x}, {}, "reduction_param { operation: SUMSQ axis: 2 }"},
      {"Scale", {x}, {}, "scale_param { bias_term: true }"},
      {"Softmax", {x}},
      {"Where",
       {x, x, uniform({1, 6})},
       {},
       "propagate_down: false propagate_down: true propagate_down: true"},
  };
}

std::vector<Row> loss_rows() {
  const Input x = uniform({4, 3}), classes = labels({4}, 3);
  const Input shares = uniform({4, 3}, 0.1, 0.9);
  const Input scores = uniform({4, 2, 3}), tags = given({2, 2}, {0, 1, 1, -1});
  const Input path = labels({4, 2}, 3);
  std::vector<Row> rows = {
      {"CRFLoss", {scores}, {path}},
      {"CTCLoss", {scores}, {tags}},
      {"CtcLoss", {scores}, {given({2, 2}, {1, 2, 2, 0})}},
      {"CenterLoss", {x}, {classes}, "center_loss_param { num_output: 3 }"},
      {"ContrastiveLoss", {x, x}, {labels({4}, 2)}},
      {"DiceCoefLoss", {shares}, {labels({4, 3}, 2)}},
      {"DiceLoss", {shares}, {labels({4, 3}, 2)}},
      {"EuclideanLoss", {x}, {x}},
      {"FocalLoss", {x}, {classes}},
      {"HingeLoss", {x}, {classes}},
      {"InfogainLoss", {x}, {classes, uniform({3, 3}, 0, 1)}},
      {"L1Loss", {x}, {x}},
      {"MultiBoxLoss",
       {uniform({1, 8}), uniform({1, 6})},
       {given({1, 2, 8}, {0.1, 0.1, 0.4, 0.4, 0.5, 0.5, 0.9, 0.9,  //
                          0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2}),
        given({1, 1, 1, 8}, {0, 1, 0, 0.1, 0.12, 0.42, 0.4, 0})},
       "multibox_loss_param { num_classes: 3 }"},
      {"MultinomialLogisticLoss", {shares}, {classes}},
      {"RegionLoss",
       {uniform({1, 14, 1, 2})},
       {given({1, 5}, {1, 0.8, 0.4, 0.2, 0.9})},
       "region_loss_param { num_class: 2 num: 2 biases: 1 biases: 1 biases: 0.5 biases: 1.5 }"},
      {"SigmoidCrossEntropyLoss", {x}, {shares}},
      {"SmoothL1Loss", {x}, {x, x, x}},
      {"SmoothL1LossOHEM", {x}, {x, x}},
      {"SoftmaxWithLoss", {x}, {classes}},
      {"SoftmaxWithLossOHEM", {x}, {classes}},
      {"TripletLoss", {x, x, x}},
      {"WarpCTCLoss", {scores}, {given({2, 2}, {1, 2, 2, 0})}},
      {"Yolov3",
       {uniform({1, 14, 1, 2})},
       {given({1, 5}, {1, 0.8, 0.4, 0.2, 0.9})},
       "yolov3_param { num_class: 2 num: 2 anchors_scale: 8 biases: 8 biases: 8 biases: 40 biases: "
       "40 biases: 4 biases: 12 mask: 0 mask: 2 }"},
  };
  return rows;
}

/// Without rows of types that this build does not have.
std::vector<Row> rows() {
  std::vector<Row> all;
  for (const auto& some :
       {pointwise_rows(), moving_rows(), map_rows(), other_rows(), loss_rows()}) {
    std::ranges::copy_if(some, std::back_inserter(all),
                         [](const Row& row) { return Registry::instance().has(row.type); });
  }
  return all;
}

/// Which layers of a net have `recompute: true`.
enum class Again { none, all, op, behind };

std::string recompute(Again again, Again part) {
  return again == Again::all || again == part ? "recompute: true " : "";
}

std::string input_layer(const std::string& name, const Shape& shape) {
  std::string dims;
  for (const int64_t dim : shape.dims()) dims += text(" dim: ", dim);
  return text("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { shape {",
              dims, " } } }\n");
}

/// The layer between Scale layers, which learn. A ReLU follows, so that there is much to fuse.
std::string net_of(const Row& row, Again again) {
  std::string prototxt;
  std::string op =
      text("layer { name: 'op' type: '", row.type, "' ", recompute(again, Again::op), row.settings);
  for (size_t i = 0; i < row.learned.size(); ++i) {
    prototxt += input_layer(text("in", i), row.learned[i].shape);
    prototxt += text("layer { name: 'front", i, "' type: 'Scale' bottom: 'in", i, "' top: 'x", i,
                     "' ", recompute(again, Again::none), "scale_param { bias_term: true } }\n");
    op += text(" bottom: 'x", i, "'");
  }
  for (size_t i = 0; i < row.data.size(); ++i) {
    prototxt += input_layer(text("data", i), row.data[i].shape);
    op += text(" bottom: 'data", i, "'");
  }
  for (int i = 0; i < row.tops; ++i) op += text(" top: 'y", i, "'");
  prototxt += op + " }\n";
  const bool is_loss = row.type.find("Loss") != std::string::npos || row.type == "Yolov3";
  for (int i = 0; !is_loss && i < row.tops; ++i) {
    const std::string more = recompute(again, Again::behind);
    prototxt += text("layer { name: 'scale", i, "' type: 'Scale' bottom: 'y", i, "' top: 's", i,
                     "' ", more, "scale_param { bias_term: true } }\n");
    prototxt += text("layer { name: 'relu", i, "' type: 'ReLU' bottom: 's", i, "' top: 'r", i, "' ",
                     more, "relu_param { negative_slope: 0.1 } }\n");
    prototxt += text("layer { name: 'loss", i, "' type: 'Reduction' bottom: 'r", i, "' top: 'loss",
                     i, "' loss_weight: 1 reduction_param { operation: SUMSQ } }\n");
  }
  return prototxt;
}

void fill(Tensor& tensor, const Input& input, uint64_t stream) {
  float* const values = tensor.overwrite<float>();
  Random random(1701, stream);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double unit = static_cast<double>(random.next_u32()) * 0x1p-32;
    const double value = !input.values.empty() ? input.values[static_cast<size_t>(i)]
                         : input.classes > 0 ? std::floor(unit * static_cast<double>(input.classes))
                                             : input.low + (input.high - input.low) * unit;
    values[i] = static_cast<float>(value);
  }
}

/// Losses, gradients and weights of some iterations.
std::vector<double> trained(const Row& row, Again again, const std::string& engine) {
  Context context({.engine = engine, .tune = false});
  Net net(net_param(net_of(row, again)), context, {.phase = Phase::train});
  std::vector<double> results;
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (size_t i = 0; i < row.learned.size(); ++i)
      fill(net.input(text("in", i)), row.learned[i], i);
    for (size_t i = 0; i < row.data.size(); ++i)
      fill(net.input(text("data", i)), row.data[i], 100 + i);
    results.push_back(net.forward());
    net.clear_gradients();
    net.backward();
    const std::vector<double> gradients = gradients_of(net);
    results.insert(results.end(), gradients.begin(), gradients.end());
    for (const auto& segment : net.params().segments()) {
      Parameter& parameter = *segment.parameter;
      if (!parameter.needs_gradient) continue;
      const std::vector<double> gradient = values_of(parameter.gradient());
      const Changing<float> values = parameter.data.changing<float>();
      for (size_t i = 0; i < gradient.size(); ++i)
        values[i] -= static_cast<float>(1e-3 * gradient[i]);
    }
    const std::vector<double> weights = params_of(net);
    results.insert(results.end(), weights.begin(), weights.end());
  }
  return results;
}

class Recompute : public testing::TestWithParam<Row> {};

TEST_P(Recompute, GivesTheSameBits) {
  const Row& row = GetParam();
  for (const char* engine : {"", "reference"}) {
    const std::vector<double> plain = trained(row, Again::none, engine);
    EXPECT_TRUE(std::ranges::all_of(plain, [](double value) { return std::isfinite(value); }));
    EXPECT_TRUE(std::ranges::any_of(plain, [](double value) { return value != 0; }));
    for (const Again again : {Again::all, Again::op, Again::behind}) {
      EXPECT_EQ(trained(row, again, engine), plain)
          << "engine '" << engine << "', " << static_cast<int>(again);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rooms, Recompute, testing::ValuesIn(rows()),
                         [](const auto& row) { return text(row.param.type, "_", row.index); });

TEST(RecomputeSweep, HasEveryTypeThatTrains) {
  std::set<std::string> covered = idle_types();
  for (const Row& row : rows()) covered.insert(row.type);
  for (const std::string& type : Registry::instance().types()) {
    if (type.starts_with("Test")) continue;  // of other tests
    EXPECT_EQ(covered.count(type), 1U) << type << " has no row here";
  }
}

/// The steps of a net that are computed again.
std::vector<std::string> recomputed(const Net& net) {
  std::vector<std::string> names;
  for (const NetStep& step : net.steps()) {
    if (step.recomputed) names.push_back(step.name);
  }
  return names;
}

std::string chain(const std::string& norm, const std::string& scale, const std::string& relu) {
  return text(R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 8 dim: 12 dim: 12 } } }
layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 4 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv'
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' )",
              norm, R"( }
layer { name: 'scale' type: 'Scale' bottom: 'norm' top: 'norm' scale_param { bias_term: true } )",
              scale, R"( }
layer { name: 'relu' type: 'ReLU' bottom: 'norm' top: 'norm' )",
              relu, R"( }
layer { name: 'ip' type: 'InnerProduct' bottom: 'norm' top: 'ip'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })");
}

// A layer that was recomputed was not fused, and weights differed from the second iteration on.
TEST(RecomputeFused, NormScaleAndReluAreFusedAsWithoutIt) {
  const std::string again = "recompute: true";
  const auto run = [](const std::string& text, std::vector<std::string>& steps) {
    Context context({.tune = false});
    Net net(net_param(text), context, {.phase = Phase::train});
    std::vector<double> results;
    for (int iteration = 0; iteration < 3; ++iteration) {
      fill_inputs(net);
      results.push_back(net.forward());
      net.clear_gradients();
      net.backward();
      for (const auto& segment : net.params().segments()) {
        Parameter& parameter = *segment.parameter;
        if (!parameter.needs_gradient) continue;
        const std::vector<double> gradient = values_of(parameter.gradient());
        const Changing<float> values = parameter.data.changing<float>();
        for (size_t i = 0; i < gradient.size(); ++i)
          values[i] -= static_cast<float>(0.1 * gradient[i]);
      }
      for (const auto& all : {gradients_of(net), params_of(net)})
        results.insert(results.end(), all.begin(), all.end());
    }
    for (const NetStep& step : net.steps()) steps.push_back(step.name);
    steps.push_back("again:");
    for (const std::string& name : recomputed(net)) steps.push_back(name);
    return results;
  };
  std::vector<std::string> plain_steps;
  const std::vector<double> plain = run(chain("", "", ""), plain_steps);
  EXPECT_THAT(plain_steps, testing::Not(testing::Contains("scale"))) << "BatchNorm is to have it";
  EXPECT_EQ(plain_steps.back(), "again:");
  for (const auto& [norm, scale, relu] :
       {std::tuple(again, std::string(), std::string()), std::tuple(again, again, std::string()),
        std::tuple(std::string(), std::string(), again), std::tuple(again, again, again)}) {
    std::vector<std::string> steps;
    EXPECT_EQ(run(chain(norm, scale, relu), steps), plain);
    // Their common top is that of the last of them.
    std::vector<std::string> expected = plain_steps;
    if (!relu.empty()) expected.push_back("norm");
    EXPECT_EQ(steps, expected);
  }
}

}  // namespace
}  // namespace crema::test
