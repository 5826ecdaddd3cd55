// Where converters between Caffe and ONNX went wrong, each as a test of what goes out and comes
// back. Those that a golden case has are in round_trip_test.cpp: groups and dilation, transposed
// InnerProduct and its axis, Scale and Bias with axes and with two bottoms, chains in place, shared
// slopes, the order of scale, shift and power, coefficients of Eltwise, Reshape with 0 and -1,
// ArgMax as floats, where eps stands in MVN and Normalize, gates and marks of recurrent layers,
// detections.
#include <gtest/gtest.h>

#include "analysis/deploy.hpp"
#include "crema/error.hpp"
#include "onnx/exported_model.hpp"
#include "onnx/round_trip.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

using test::ExportedModel;
using test::input_layer;

class OnnxTraps : public ::testing::Test {
 protected:
  Net net_of(const std::string& text) {
    Net net(test::net_param(text), context_, {.phase = Phase::test, .fuse = false});
    test::fill_inputs(net);
    return net;
  }
  Context context_{{.threads = 1, .tune = false}};
};

std::string layer(const std::string& type, const std::string& settings,
                  const std::string& bottom = "x", const std::string& top = "y") {
  return "layer { name: '" + top + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + settings + " } ";
}

// MTLab/onnx2caffe#3, htshinichi/caffe-onnx#38: Caffe rounds sizes up, and drops a window that
// would begin in the padding; AVE divides by what lies within the padded image.
TEST_F(OnnxTraps, SizesAndDivisorsOfPooling) {
  int compared = 0;
  for (int size = 4; size <= 9; ++size) {
    for (int kernel = 1; kernel <= 4; ++kernel) {
      for (int stride = 1; stride <= 3; ++stride) {
        for (int pad = 0; pad < kernel && pad <= 2; ++pad) {
          std::string net = input_layer(text("dim: 1 dim: 2 dim: ", size, " dim: ", size + 2));
          for (const char* method : {"MAX", "AVE"}) {
            for (const char* rounding : {"CEIL", "FLOOR"}) {
              net +=
                  layer("Pooling",
                        text("pooling_param { pool: ", method, " kernel_size: ", kernel,
                             " stride: ", stride, " pad: ", pad, " round_mode: ", rounding, " }"),
                        "x", text(method, "_", rounding));
            }
          }
          Net pools = net_of(net);
          EXPECT_EQ(test::round_trip(pools, {.opset = size % 2 == 0 ? 13 : 19}, 1e-6), "")
              << "size " << size << " kernel " << kernel << " stride " << stride << " pad " << pad;
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 6 * 3 * (1 + 2 + 3 + 3));
}

TEST_F(OnnxTraps, PoolingWithOtherSidesAndWholeImages) {
  for (const char* settings :
       {"pool: MAX kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0",
        "pool: AVE kernel_h: 2 kernel_w: 5 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2",
        "pool: MAX global_pooling: true", "pool: AVE global_pooling: true",
        "pool: MAX kernel_size: 3 stride: 2 ceil_mode: false",
        "pool: AVE kernel_size: 3 stride: 2 torch_pooling: true"}) {
    Net net = net_of(input_layer("dim: 2 dim: 3 dim: 8 dim: 7") +
                     layer("Pooling", text("pooling_param { ", settings, " }")));
    EXPECT_EQ(test::round_trip(net), "") << settings;
  }
}

// NVIDIA/caffe#436: statistics are stored times the third blob, and 0 there means none yet.
TEST_F(OnnxTraps, TheDivisorOfBatchNormMayBeZero) {
  for (const float divisor : {0.F, 1.F, 999.982F}) {
    Net net = net_of(input_layer("dim: 2 dim: 3 dim: 4 dim: 4") + layer("BatchNorm", ""));
    test::vary_parameters(net);
    net.layer("y").params()[2]->data.fill(divisor);
    EXPECT_EQ(test::round_trip(net), "") << divisor;
  }
}

// Tencent/TNN#160, microsoft/MMdnn#716: BatchNorm and Scale are a pair, and Scale may stand alone.
TEST_F(OnnxTraps, BatchNormAndScaleComeBackAsThemselves) {
  Net net = net_of(
      input_layer("dim: 2 dim: 3 dim: 6 dim: 6") +
      layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", "x", "conv") +
      layer("BatchNorm", "", "conv", "bn") +
      layer("Scale", "scale_param { bias_term: true }", "bn", "sc") +
      layer("ReLU", "relu_param { negative_slope: 0.1 }", "sc", "act") +
      layer("Scale", "scale_param { }", "act", "alone"));
  test::vary_parameters(net);
  EXPECT_EQ(test::round_trip(net), "");
  const TempFolder folder;
  save_onnx(net, folder.path("net.onnx"));
  Net again(folder.path("net.onnx"), context_, {.phase = Phase::test, .fuse = false});
  std::vector<std::string> types;
  for (const Layer* one : again.layers()) types.push_back(one->type());
  EXPECT_EQ(types, (std::vector<std::string>{"Input", "Convolution", "BatchNorm", "Scale", "ReLU",
                                             "Scale"}));
  for (const char* name : {"conv", "bn", "act"})
    EXPECT_TRUE(again.has_layer(name)) << name << " became " << again.layers()[2]->name();
}

// htshinichi/caffe-onnx#1 and others: Resize and its modes.
TEST_F(OnnxTraps, ImagesGrowAndShrinkInEachMode) {
  for (const std::string& layers :
       {layer("Interp", "interp_param { height: 9 width: 12 }"),
        layer("Interp", "interp_param { shrink_factor: 2 }"),
        layer("Interp", "interp_param { zoom_factor: 3 }"),
        layer("Resize", "resize_param { scale: 2 }"),
        layer("ResizeNearestNeighbor",
              "resize_nearest_neighbor_param { scaling_factor_height: 2 scaling_factor_width: 2 }"),
        layer("Deconvolution",
              "convolution_param { num_output: 3 group: 3 kernel_size: 4 stride: 2 pad: 1 "
              "bias_term: false weight_filler { type: 'bilinear' } }"),
        layer("Reorg", "reorg_param { stride: 2 }", "wide"),
        layer("Reorg", "reorg_param { stride: 2 reverse: true }", "wide"),
        layer("ShuffleChannel", "shuffle_channel_param { group: 2 }", "wide")}) {
    try {
      Net net = net_of(input_layer(layers.find("'wide'") == std::string::npos
                                       ? "dim: 2 dim: 3 dim: 5 dim: 6"
                                       : "dim: 2 dim: 8 dim: 4 dim: 6",
                                   layers.find("'wide'") == std::string::npos ? "x" : "wide") +
                       layers);
      EXPECT_EQ(test::round_trip(net), "") << layers;
    } catch (const Error& error) {
      ADD_FAILURE() << layers << ": " << error.what();
    }
  }
}

// Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB#118, yolov5_onnx2caffe#12: fields of forks are
// no unknown fields.
TEST_F(OnnxTraps, FieldsOfForksAreKnown) {
  Net net = net_of(
      input_layer("dim: 1 dim: 4 dim: 4 dim: 6") +
      layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", "x", "turned") +
      layer("Reorg", "reorg_param { stride: 2 }", "x", "blocks") +
      layer("BN", "bn_param { slope_filler { value: 1 } }", "x", "normal") +
      layer("ReLU6", "", "x", "six"));
  test::vary_parameters(net);
  for (const auto& parameter : net.layer("normal").params()) {
    if (parameter->learnable) continue;
    parameter->data.fill(0.75);  // a variance has to be positive
  }
  EXPECT_EQ(test::round_trip(net), "");
}

TEST_F(OnnxTraps, LayersThatDoNothingLeaveNoNodes) {
  const ExportedModel model(input_layer("dim: 2 dim: 3") + input_layer("dim: 2 dim: 3", "unread") +
                            "layer { name: 'split' type: 'Split' bottom: 'x' top: 'a' top: 'b' } " +
                            layer("Dropout", "", "a", "a") + layer("TanH", "", "a", "y") +
                            layer("AbsVal", "", "b", "z") +
                            "layer { name: 'silence' type: 'Silence' bottom: 'unread' }");
  EXPECT_EQ(model.operators(), (std::vector<std::string>{"Tanh", "Abs"}));
  EXPECT_EQ(model.graph().input_size(), 2) << "an input stays, whoever reads it";
}

// Losses have no place in a model; what crema deploy makes of a net for training has none.
TEST_F(OnnxTraps, LossesBecomeScores) {
  const NetParameter trained = test::net_param(
      "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { shape { "
      "dim: 4 dim: 3 dim: 6 dim: 6 } shape { dim: 4 } } } " +
      layer("InnerProduct", "inner_product_param { num_output: 5 }", "data", "fc") +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' } "
      "layer { name: 'top1' type: 'Accuracy' bottom: 'fc' bottom: 'label' top: 'top1' include { "
      "phase: TEST } }");
  Net training(trained, context_, {.phase = Phase::test});
  expect_error([&] { save_onnx(training, "never.onnx"); },
               {"2 layers", "'loss' (SoftmaxWithLoss)", "'top1' (Accuracy)"});
  Net net(deploy_net(trained, context_).net, context_, {.phase = Phase::test, .fuse = false});
  test::fill_inputs(net);
  test::vary_parameters(net);
  EXPECT_EQ(test::round_trip(net), "");
  const TempFolder folder;
  save_onnx(net, folder.path("net.onnx"));
  const onnx::ModelProto model = onnx::read_model(folder.path("net.onnx"));
  EXPECT_EQ(model.graph().node(model.graph().node_size() - 1).op_type(), "Softmax");
}

// A window that is chosen by chance in training is a weighted mean in phase TEST.
TEST_F(OnnxTraps, StochasticPoolingIsExportedOrNamed) {
  Net net = net_of(
      input_layer("dim: 1 dim: 2 dim: 6 dim: 6") + layer("AbsVal", "", "x", "positive") +
      layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }", "positive"));
  try {
    EXPECT_EQ(test::round_trip(net), "");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'y' (Pooling)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("STOCHASTIC"), std::string::npos) << error.what();
  }
}

// Names that are no identifiers, and those that other layers' parts would get.
TEST_F(OnnxTraps, NamesMayBeAnything) {
  Net net = net_of(
      input_layer("dim: 1 dim: 3 dim: 5 dim: 5", "a/b c") +
      layer("Convolution", "convolution_param { num_output: 2 kernel_size: 3 }", "a/b c", "conv") +
      layer("ReLU", "", "conv", "conv.weight") +
      layer("Power", "power_param { scale: 2 shift: 1 power: 2 }", "conv.weight", "Straße \"1\""));
  test::vary_parameters(net);
  EXPECT_EQ(test::round_trip(net), "");
}

// A net as it was exported with an open batch runs on any.
TEST_F(OnnxTraps, AnyBatchRuns) {
  Net net = net_of(
      input_layer("dim: 2 dim: 3 dim: 8 dim: 8") +
      layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", "x", "conv") +
      layer("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }", "conv", "pool") +
      layer("Flatten", "", "pool", "flat") +
      layer("InnerProduct", "inner_product_param { num_output: 5 }", "flat", "fc") +
      layer("Softmax", "", "fc", "prob"));
  test::vary_parameters(net);
  const TempFolder folder;
  save_onnx(net, folder.path("net.onnx"), {.dynamic_batch = true});
  Net again(folder.path("net.onnx"), context_, {.phase = Phase::test});
  for (const int64_t batch : {1, 2, 7}) {
    for (Net* each : {&net, &again}) {
      each->reshape_input("x", {batch, 3, 8, 8});
      each->reshape();
    }
    test::fill_inputs(net);
    const NetComparison comparison = compare_nets(net, again, 1e-5);
    EXPECT_TRUE(comparison.same(1e-5)) << batch << ": " << comparison.relative();
    EXPECT_EQ(again.output("prob").shape(), (Shape{batch, 5}));
  }
}

// The marks of sequences that may begin anywhere have no place in ONNX's operators: the steps are
// nodes, and one layer again when they come back.
TEST_F(OnnxTraps, StepsOfRecurrentLayersAreOneLayerAgain) {
  const struct {
    const char* type;
    const char* settings;
  } cases[] = {{"LSTM", ""}, {"GRU", ""}, {"GRU", "linear_before_reset: false"}};
  for (const auto& [type, settings] : cases) {
    const auto settings_of = [&](const char* more) {
      return text("recurrent_param { num_output: 3 ", settings, " ", more, " }");
    };
    const auto recurrent = [&](const std::string& name, const std::string& x, const char* more) {
      return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + x +
             "' bottom: 'cont' top: '" + name + "' " + settings_of(more) + " } ";
    };
    const std::string inputs =
        input_layer("dim: 5 dim: 2 dim: 4") + input_layer("dim: 5 dim: 2", "cont");
    Net net = net_of(inputs + recurrent("first", "x", "") + recurrent("second", "first", ""));
    test::vary_parameters(net);
    // Sequences begin at step 0, so that no state of another run goes on.
    const auto set_marks = [](Tensor& cont) {
      auto* const marks = cont.overwrite<float>();
      for (int64_t i = 0; i < cont.count(); ++i) marks[i] = i < 2 || i % 3 == 0 ? 0.F : 1.F;
    };
    set_marks(net.input("cont"));
    const TempFolder folder;
    for (const int opset : {13, 21}) {
      save_onnx(net, folder.path("net.onnx"), {.opset = opset});
      Net again(folder.path("net.onnx"), context_, {.phase = Phase::test, .fuse = false});
      const NetComparison comparison = compare_nets(net, again, 1e-6);
      EXPECT_TRUE(comparison.same(1e-6)) << type << ": " << comparison.relative();
      for (const char* name : {"first", "second"}) {
        ASSERT_TRUE(again.has_layer(name)) << type << " " << settings;
        EXPECT_EQ(again.layer(name).type(), type);
        const auto &own = net.layer(name).params(), &params = again.layer(name).params();
        ASSERT_EQ(params.size(), own.size());
        for (size_t p = 0; p < own.size(); ++p) {
          ASSERT_EQ(params[p]->shape(), own[p]->shape());
          for (int64_t i = 0; i < own[p]->data.count(); ++i)
            EXPECT_EQ(params[p]->data.at(i), own[p]->data.at(i));
        }
      }
    }
    // States that are given, and both directions, stay steps that compute the same.
    Net both = net_of(inputs + recurrent("y", "x", "bidirectional: true"));
    test::vary_parameters(both);
    set_marks(both.input("cont"));
    EXPECT_EQ(test::round_trip(both), "") << type;
  }
}

// A class token is repeated for as many samples as there are, not for those of the export.
TEST_F(OnnxTraps, ATokenGoesToAnyBatch) {
  Net net = net_of(
      input_layer("dim: 2 dim: 3 dim: 4") +
      "layer { name: 'token' type: 'Parameter' top: 'token' parameter_param { shape { dim: 1 dim: "
      "1 "
      "dim: 4 } } } "
      "layer { name: 'each' type: 'Expand' bottom: 'token' bottom: 'x' top: 'each' expand_param { "
      "dim: -2 dim: -1 dim: -1 } } "
      "layer { name: 'y' type: 'Concat' bottom: 'each' bottom: 'x' top: 'y' }");
  test::vary_parameters(net);
  for (const bool open : {true, false}) {
    const TempFolder folder;
    save_onnx(net, folder.path("net.onnx"), {.dynamic_batch = open});
    Net again(folder.path("net.onnx"), context_, {.phase = Phase::test});
    for (const int64_t batch : {1, 2, 5}) {
      for (Net* each : {&net, &again}) {
        each->reshape_input("x", {batch, 3, 4});
        each->reshape();
      }
      test::fill_inputs(net);
      const NetComparison comparison = compare_nets(net, again, 0);
      EXPECT_TRUE(comparison.same(0)) << batch << ": " << comparison.relative();
      EXPECT_EQ(again.output("y").shape(), (Shape{batch, 4, 4}));
    }
    net.reshape_input("x", {2, 3, 4});
    net.reshape();
  }
}

}  // namespace
}  // namespace crema
