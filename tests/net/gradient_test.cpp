// Which layers run backward, and that what they compute is the gradient: fan-out, in-place use,
// sharing.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

using test::check_net_gradients;
using test::fill_inputs;
using test::gradients_of;
using test::net_param;

const NetOptions kDouble{.phase = Phase::train, .dtype = DType::f64};

std::string input(const std::string& dims) {
  return R"(force_backward: true
layer { name: "data" type: "Input" top: "data" input_param { shape { )" +
         dims + R"( } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
)";
}

const std::string kImages = input("dim: 2 dim: 3 dim: 6 dim: 5");

std::string classifier(const std::string& bottom) {
  return R"(
layer { name: "ip" type: "InnerProduct" bottom: ")" +
         bottom + R"(" top: "ip"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
}

/// How many failures check_net_gradients() reports.
int failures_of_check(Net& net) {
  using Reporter = testing::ScopedFakeTestPartResultReporter;
  testing::TestPartResultArray failures;
  const Reporter reporter(Reporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
  check_net_gradients(net);
  return failures.size();
}

// The check itself. `kinks` of 8 values of each sample are 0, where the ReLU has its kink.
TEST(Gradient, TheCheckFindsWrongOnesAlsoAtKinks) {
  const auto failures = [](int64_t kinks, int64_t wrong_at, double wrong_by) {
    Context context;
    Net net(net_param(R"(
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 } } }
layer { name: "scale" type: "Scale" bottom: "x" top: "y"
        scale_param { bias_term: true filler { value: 2 } } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "z" }
layer { name: "loss" type: "InnerProduct" bottom: "z" top: "loss" loss_weight: 1
        inner_product_param { num_output: 1 weight_filler { value: 3 } } })"),
            context, kDouble);
    fill_inputs(net, 0.1, 1);
    for (int64_t i = 0; i < 16; ++i) {
      if (i % 8 < kinks) net.input("x").change<double>()[i] = 0;
    }
    net.on_gradient([&](size_t segment) {
      const auto& of = net.params().segments()[segment];
      if (of.layer == "scale" && of.index == 1)
        of.parameter->gradient().change<double>()[wrong_at] += wrong_by;
    });
    return failures_of_check(net);
  };
  EXPECT_EQ(failures(0, 0, 0), 0);
  EXPECT_EQ(failures(2, 0, 0), 0);
  // A bias's gradient is 6, or 0 at a kink, where it is 6 on the other side.
  for (const double by : {0.01, -0.01, 2.0}) {
    EXPECT_EQ(failures(2, 1, by), 1) << by;
    EXPECT_EQ(failures(2, 2, by), 1) << by;
  }
  EXPECT_EQ(failures(8, 0, 0), 1) << "kinks nearly everywhere";
}

void expect_right_gradients(const std::string& text) {
  for (bool fuse : {false, true}) {
    SCOPED_TRACE(fuse ? "fused" : "plain");
    Context context;
    NetOptions options = kDouble;
    options.fuse = fuse;
    Net net(net_param(text), context, options);
    fill_inputs(net, 0.1, 1);
    check_net_gradients(net);
  }
}

TEST(Gradient, OfAChainWithInPlaceLayers) {
  expect_right_gradients(kImages + R"(
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" })" +
                         classifier("conv"));
}

// Users' nets put a ReLU in place behind a layer whose gradient needs its own output; the published
// implementation then computes a wrong gradient without a word.
TEST(Gradient, LrnThenReluInPlaceIsRepaired) {
  const std::string text = kImages + R"(
layer { name: "norm" type: "LRN" bottom: "data" top: "norm" lrn_param { local_size: 3 alpha: 2 } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "norm" top: "s" }
layer { name: "relu" type: "ReLU" bottom: "s" top: "s" relu_param { negative_slope: 0.5 } }
layer { name: "tanh" type: "TanH" bottom: "s" top: "s" })" +
                           classifier("s");
  expect_right_gradients(text);
  Context context;
  Net net(net_param(text), context, kDouble);
  bool said = false;
  for (const auto& note : net.notes()) said = said || note.find("in place") != std::string::npos;
  EXPECT_TRUE(said) << "the repair must be mentioned";
}

TEST(Gradient, FanOutAddsUp) {
  expect_right_gradients(kImages + R"(
layer { name: "c0" type: "Convolution" bottom: "data" top: "x"
        convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "c1" type: "Convolution" bottom: "x" top: "c1"
        convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "r1" type: "Sigmoid" bottom: "c1" top: "c1" }
layer { name: "c2" type: "TanH" bottom: "x" top: "c2" }
layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "c1" bottom: "c2" top: "sum" }
layer { name: "cat" type: "Concat" bottom: "sum" bottom: "x" top: "cat" })" +
                         classifier("cat"));
}

// More readers than are added in one go, some of them in place.
TEST(Gradient, OfManyReadersAddUp) {
  std::string prototxt = kImages + R"(
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } })";
  std::string sum = "layer { name: 'sum' type: 'Eltwise' top: 'sum'";
  for (int i = 0; i < 11; ++i) {
    const std::string type = i % 3 == 0 ? "Sigmoid" : i % 3 == 1 ? "TanH" : "ReLU";
    prototxt +=
        text("layer { name: 'f", i, "' type: '", type, "' bottom: 'conv' top: 'f", i, "' }");
    prototxt += text("layer { name: 'g", i, "' type: 'TanH' bottom: 'f", i, "' top: 'f", i, "' }");
    sum += text(" bottom: 'f", i, "'");
  }
  expect_right_gradients(prototxt + sum + " }" + classifier("sum"));
}

TEST(Gradient, OneValueReadTwiceByOneLayer) {
  expect_right_gradients(kImages + R"(
layer { name: "square" type: "Eltwise" bottom: "data" bottom: "data" top: "square"
        eltwise_param { operation: PROD } })" +
                         classifier("square"));
}

TEST(Gradient, InPlaceOnABranchLeavesTheOthersAlone) {
  expect_right_gradients(kImages + R"(
layer { name: "s" type: "Sigmoid" bottom: "data" top: "s" }
layer { name: "flat" type: "Flatten" bottom: "s" top: "flat" }
layer { name: "t" type: "TanH" bottom: "flat" top: "flat" }
layer { name: "flat2" type: "Flatten" bottom: "s" top: "flat2" }
layer { name: "sum" type: "Eltwise" bottom: "flat" bottom: "flat2" top: "sum" })" +
                         classifier("sum"));
}

TEST(Gradient, SharedParametersAddUp) {
  expect_right_gradients(input("dim: 2 dim: 4") + R"(
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" } param { name: "b" }
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "s" type: "Sigmoid" bottom: "a" top: "a" }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" } param { name: "b" }
        inner_product_param { num_output: 4 } })" +
                         classifier("b"));
}

TEST(Gradient, SharingChecksShapes) {
  const std::string text = input("dim: 2 dim: 4") + R"(
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" }
        inner_product_param { num_output: 6 bias_term: false } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" MODE }
        inner_product_param { num_output: 4 bias_term: false } }
)";
  auto with = [&](const std::string& mode) {
    std::string result = text;
    return result.replace(result.find("MODE"), 4, mode);
  };
  Context context;
  expect_error([&] { Net(net_param(with("")), context, {}); }, {"'b'", "6x4", "4x6", "PERMISSIVE"});
  Net net(net_param(with("share_mode: PERMISSIVE")), context, {});
  EXPECT_EQ(net.params().segments().size(), 1U);
  EXPECT_TRUE(net.layer("b").params()[0]->data.same_memory(net.layer("a").params()[0]->data));
  expect_error(
      [&] {
        Net(net_param(with("lr_mult: 2 share_mode: PERMISSIVE")), context, {});
        Net(net_param(input("dim: 2 dim: 4") + R"(
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" lr_mult: 1 }
        inner_product_param { num_output: 4 bias_term: false } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" lr_mult: 2 }
        inner_product_param { num_output: 4 bias_term: false } })"),
            context, {});
      },
      {"lr_mult", "2", "1"});
}

std::vector<std::string> backward_steps(const std::string& text) {
  Context context;
  Net net(net_param(text), context, {.phase = Phase::train, .fuse = false});
  std::vector<std::string> names;
  for (const auto& step : net.steps()) {
    if (step.backward && step.layer >= 0) names.push_back(step.name);
  }
  return names;
}

const std::string kThree = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" PARAM inner_product_param { num_output: 4 } }
layer { name: "r" type: "ReLU" bottom: "a" top: "r" }
layer { name: "b" type: "InnerProduct" bottom: "r" top: "b" PROPAGATE inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "b" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "b" bottom: "label" top: "accuracy" }
)";

std::string three(const std::string& param, const std::string& propagate) {
  std::string text = kThree;
  text.replace(text.find("PARAM"), 5, param);
  return text.replace(text.find("PROPAGATE"), 9, propagate);
}

TEST(Gradient, OnlyWhatIsNeededRunsBackward) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(backward_steps(three("", "")), (Names{"a", "r", "b", "loss"}));
  EXPECT_EQ(backward_steps(three("param { lr_mult: 0 } param { lr_mult: 0 }", "")),
            (Names{"b", "loss"}));
  EXPECT_EQ(backward_steps(three("", "propagate_down: false")), (Names{"b", "loss"}));
  EXPECT_EQ(backward_steps("force_backward: true " + three("", "")),
            (Names{"a", "r", "b", "loss"}));
}

// An engine divided by the number of values of a channel.
TEST(Gradient, OfChannelsWithoutValuesIsZero) {
  for (const char* engine : {"reference", ""}) {
    SCOPED_TRACE(engine);
    Context context({.engine = engine});
    Net net(net_param(R"(
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 0 dim: 4 } } }
layer { name: "norm" type: "BatchNorm" bottom: "x" top: "norm" loss_weight: 1 }
layer { name: "scale" type: "Scale" bottom: "x" top: "scale" loss_weight: 1 })"),
            context, {.phase = Phase::train});
    EXPECT_EQ(net.forward(), 0);
    net.clear_gradients();
    net.backward();
    for (double g : gradients_of(net)) EXPECT_EQ(g, 0);
  }
}

TEST(Gradient, LabelsCannotBePropagatedTo) {
  Context context;
  std::string text = three("", "");
  const std::string loss = "top: \"loss\"";
  text.replace(text.find(loss), loss.size(), loss + " propagate_down: true propagate_down: true");
  expect_error([&] { Net(net_param(text), context, {}); }, {"cannot propagate", "label"});
}

// What learns below a layer without a gradient would stay as it is, without a word.
TEST(Gradient, ALayerWithoutOneMayNotEndItUnasked) {
  Context context;
  const auto text = [](const std::string& ends) {
    return kImages + R"(
layer { name: "first" type: "InnerProduct" bottom: "data" top: "first"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "mask" type: "Threshold" bottom: "first" top: "mask" )" +
           ends + "}" + classifier("mask");
  };
  expect_error([&] { Net(net_param(text("")), context, {.phase = Phase::train}); },
               {"layer 'mask' (Threshold)", "cannot propagate to bottom 0 ('first')",
                "propagate_down: false"});
  Net net(net_param(text("propagate_down: false ")), context, {.phase = Phase::train});
  EXPECT_NO_THROW(net.forward());
}

const char* const kTwoInputs = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "target" type: "Input" top: "target" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" LR
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

/// Layers behind an InnerProduct 'ip' that a loss trains. `lr`: its `param`.
NetParameter beside_a_loss(const std::string& layers, const std::string& lr = "") {
  std::string text = kTwoInputs + layers;
  return net_param(text.replace(text.find("LR"), 2, lr));
}

void expect_accepted(const std::string& layers, const std::string& lr = "") {
  Context context;
  try {
    const Net net(beside_a_loss(layers, lr), context, {.phase = Phase::train});
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << layers;
  }
}

void expect_refused(const std::string& layers, std::initializer_list<std::string_view> parts) {
  Context context;
  expect_error([&] { Net(beside_a_loss(layers), context, {.phase = Phase::train}); }, parts);
  // Nothing trains, or a net that only runs forward.
  const Net test(beside_a_loss(layers), context, {.phase = Phase::test});
}

// Each was part of the loss shown, and trained nothing, as long as what learns had another loss.
TEST(Gradient, NoLossMayEndAtALayerWithoutOne) {
  const std::string argmax = R"(
layer { name: "am" type: "ArgMax" bottom: "ip" top: "am" argmax_param { axis: 1 } KEEP }
layer { name: "eloss" type: "EuclideanLoss" bottom: "am" bottom: "label" top: "eloss" WEIGHT })";
  const auto with = [&](const std::string& keep, const std::string& weight) {
    std::string text = argmax;
    text.replace(text.find("KEEP"), 4, keep);
    return text.replace(text.find("WEIGHT"), 6, weight);
  };
  expect_refused(with("", ""),
                 {"layer 'am' (ArgMax): cannot propagate to bottom 0 ('ip')",
                  "the loss 'eloss' of layer 'eloss' (EuclideanLoss)", "layer 'ip' (InnerProduct)",
                  "propagate_down: false", "loss_weight: 0 in layer 'eloss'"});
  expect_accepted(with("propagate_down: false", ""));
  expect_accepted(with("", "loss_weight: 0"));
  expect_accepted(with("", ""), "param { lr_mult: 0 } param { lr_mult: 0 }");

  // The labels of a loss that nothing else trains.
  expect_refused(R"(
layer { name: "am" type: "ArgMax" bottom: "ip" top: "am" argmax_param { axis: 1 } }
layer { name: "second" type: "SoftmaxWithLoss" bottom: "target" bottom: "am" top: "second" })",
                 {"layer 'second' (SoftmaxWithLoss): cannot propagate to bottom 1 ('am')",
                  "propagate_down: true propagate_down: false", "layer 'ip' (InnerProduct)"});
  // The same beside scores that learn.
  const std::string own_labels = R"(
layer { name: "am" type: "ArgMax" bottom: "ip" top: "am" argmax_param { axis: 1 } KEEP }
layer { name: "other" type: "InnerProduct" bottom: "data" top: "other"
        inner_product_param { num_output: 3 } }
layer { name: "second" type: "SoftmaxWithLoss" bottom: "other" bottom: "am" top: "second" })";
  const auto keep = [&](const std::string& field) {
    std::string text = own_labels;
    return text.replace(text.find("KEEP"), 4, field);
  };
  expect_refused(keep(""), {"layer 'second' (SoftmaxWithLoss): cannot propagate to bottom 1 ('am')",
                            "propagate_down: true propagate_down: false"});
  expect_accepted(keep("propagate_down: false"));
  // Scores as labels.
  expect_refused(R"(
layer { name: "other" type: "InnerProduct" bottom: "data" top: "other"
        inner_product_param { num_output: 3 } }
layer { name: "second" type: "SigmoidCrossEntropyLoss" bottom: "other" bottom: "ip" top: "second" })",
                 {"layer 'second' (SigmoidCrossEntropyLoss): cannot propagate to bottom 1 ('ip')",
                  "propagate_down: true propagate_down: false"});
  // A gate: its own path has no gradient, though another path of the same loss has one.
  expect_refused(R"(
layer { name: "mask" type: "Threshold" bottom: "ip" top: "mask" }
layer { name: "gate" type: "Eltwise" bottom: "ip" bottom: "mask" top: "gate"
        eltwise_param { operation: PROD } }
layer { name: "second" type: "EuclideanLoss" bottom: "gate" bottom: "target" top: "second" })",
                 {"layer 'mask' (Threshold)", "'second'"});
  // Through layers that have a gradient.
  expect_refused(R"(
layer { name: "mask" type: "Threshold" bottom: "ip" top: "mask" }
layer { name: "power" type: "Power" bottom: "mask" top: "power" power_param { scale: 2 } }
layer { name: "sum" type: "Reduction" bottom: "power" top: "sum" loss_weight: 3 })",
                 {"layer 'mask' (Threshold)", "the loss 'sum' of layer 'sum' (Reduction)"});
}

TEST(Gradient, ALayerWithoutOneIsNoLoss) {
  const std::string accuracy =
      "layer { name: 'acc' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'acc' ";
  expect_refused(accuracy + "loss_weight: 1 }",
                 {"layer 'acc' (Accuracy): the layer has no gradient", "'acc' (loss_weight: 1)",
                  "loss_weight: 0", "propagate_down: false propagate_down: false"});
  expect_accepted(accuracy + "}");
  expect_accepted(accuracy + "loss_weight: 0 }");
  expect_accepted(accuracy + "loss_weight: 1 propagate_down: false propagate_down: false }");
  expect_refused("layer { name: 't' type: 'Threshold' bottom: 'target' top: 't' loss_weight: 1 }",
                 {"layer 't' (Threshold): the layer has no gradient"});
}

TEST(Gradient, NoLossMayEndAtATopWithoutOne) {
  expect_refused(R"(
layer { name: "show" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" top: "p" }
layer { name: "second" type: "EuclideanLoss" bottom: "p" bottom: "target" top: "second" })",
                 {"layer 'show' (SoftmaxWithLoss): top 1 ('p') has no gradient",
                  "the loss 'second' of layer 'second' (EuclideanLoss)", "'ip' (InnerProduct)",
                  "propagate_down: false for bottom 'p'", "loss_weight: 0 in layer 'second'"});
  expect_accepted(R"(
layer { name: "show" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" top: "p" }
layer { name: "second" type: "EuclideanLoss" bottom: "p" bottom: "target" top: "second"
        propagate_down: false propagate_down: false })");
  expect_refused(R"(
layer { name: "show" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" top: "p"
        loss_weight: 1 loss_weight: 2 })",
                 {"top 1 ('p') has no gradient", "'p' (loss_weight: 2)"});
}

// Paths that need no gradient, as published nets have them.
TEST(Gradient, PathsWithoutOneThatAreMeantStay) {
  const std::string maps = R"(
layer { name: "image" type: "Input" top: "image" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "image" top: "conv"
        convolution_param { num_output: 2 kernel_size: 3 pad: 1 } }
layer { name: "small" type: "Pooling" bottom: "conv" top: "small" top: "mask"
        pooling_param { kernel_size: 2 stride: 2 } }
)";
  // The places of a maximum, of SegNet.
  expect_accepted(maps + R"(
layer { name: "up" type: "Upsample" bottom: "small" bottom: "mask" top: "up" }
layer { name: "sum" type: "Reduction" bottom: "up" top: "sum" loss_weight: 1 })");
  // A map that gives its size alone, of FCN; nothing else trains it.
  for (const char* layer : {"type: 'Crop' crop_param { axis: 2 offset: 0 }", "type: 'Resize'"}) {
    expect_accepted(maps + text(R"(
layer { name: "like" type: "Convolution" bottom: "image" top: "like"
        convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "cut" )",
                                layer, R"( bottom: "conv" bottom: "like" top: "cut" }
layer { name: "sum" type: "Reduction" bottom: "cut" top: "sum" loss_weight: 1 })"));
  }
  // Regions of Faster R-CNN: what proposes them has losses of its own.
  const std::string regions = R"(
layer { name: "image" type: "Input" top: "image" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 6 } } }
layer { name: "info" type: "Input" top: "info" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "conv" type: "Convolution" bottom: "image" top: "conv"
        convolution_param { num_output: 2 kernel_size: 3 pad: 1 } }
layer { name: "score" type: "Convolution" bottom: "conv" top: "score"
        convolution_param { num_output: 18 kernel_size: 1 } }
layer { name: "box" type: "Convolution" bottom: "conv" top: "box"
        convolution_param { num_output: 36 kernel_size: 1 } }
layer { name: "propose" type: "Proposal" bottom: "score" bottom: "box" bottom: "info" top: "rois" }
)";
  const std::string pool = R"(
layer { name: "pool" type: "ROIPooling" bottom: "conv" bottom: "rois" top: "pool"
        roi_pooling_param { pooled_h: 2 pooled_w: 2 } }
layer { name: "sum" type: "Reduction" bottom: "pool" top: "sum" loss_weight: 1 }
)";
  expect_accepted(regions + R"(
layer { name: "rpn" type: "Reduction" bottom: "score" top: "rpn" loss_weight: 1 }
layer { name: "rpn2" type: "Reduction" bottom: "box" top: "rpn2" loss_weight: 1 })" +
                  pool);
  // Without them nothing trains what proposes.
  expect_refused(
      regions + pool,
      {"layer 'pool' (ROIPooling): cannot propagate to bottom 1 ('rois')", "(Convolution)"});
  expect_refused(regions + R"(
layer { name: "sum" type: "Reduction" bottom: "rois" top: "sum" loss_weight: 1 })",
                 {"layer 'propose' (Proposal): top 0 ('rois') has no gradient"});
  // Weights that another layer computes without gradient. With one, they would learn.
  const auto weighted = [](const std::string& type) {
    return "layer { name: 'w' type: '" + type + "' bottom: 'ip' top: 'w' }" + R"(
layer { name: "other" type: "InnerProduct" bottom: "data" top: "other"
        inner_product_param { num_output: 3 } }
layer { name: "second" type: "SmoothL1Loss" bottom: "other" bottom: "target" bottom: "w" bottom: "w"
        top: "second" })";
  };
  expect_accepted(weighted("Threshold"));
  expect_refused(weighted("Sigmoid"),
                 {"layer 'second' (SmoothL1Loss): cannot propagate to bottom 2 ('w')",
                  "propagate_down: true propagate_down: true propagate_down: false "
                  "propagate_down: false"});
  // Labels that pass a layer beside scores.
  const std::string filter = R"(
layer { name: "selector" type: "Input" top: "selector" input_param { shape { dim: 2 } } }
layer { name: "filter" type: "Filter" bottom: "ip" bottom: "label" bottom: "selector"
        top: "some" top: "some_labels" }
layer { name: "second" type: "SoftmaxWithLoss" bottom: "SCORES" bottom: "LABELS" top: "second" })";
  const auto filtered = [&](const std::string& scores, const std::string& labels) {
    std::string text = filter;
    text.replace(text.find("SCORES"), 6, scores);
    return text.replace(text.find("LABELS"), 6, labels);
  };
  expect_accepted(filtered("some", "some_labels"));
  expect_refused(filtered("some", "some"), {"cannot propagate to bottom 1 ('some')"});
  // What passes it beside scores, and no loss depends on it.
  const std::string best = R"(
layer { name: "best" type: "ArgMax" bottom: "ip" top: "best" }
layer { name: "selector" type: "Input" top: "selector" input_param { shape { dim: 2 } } }
layer { name: "filter" type: "Filter" bottom: "ip" bottom: "best" bottom: "selector"
        top: "some" top: "some_best" }
layer { name: "second" type: "Reduction" bottom: "READ" top: "second" loss_weight: 1 })";
  const auto reduced = [&](const std::string& read) {
    std::string text = best;
    return text.replace(text.find("READ"), 4, read);
  };
  expect_accepted(reduced("some"));
  expect_refused(reduced("some_best"), {"layer 'best' (ArgMax)", "'ip'"});
  // But a mask is no loss.
  expect_refused(maps + R"(
layer { name: "sum" type: "Reduction" bottom: "mask" top: "sum" loss_weight: 1 })",
                 {"layer 'small' (Pooling): top 1 ('mask') has no gradient", "'conv'"});
}

TEST(Gradient, ATestNetHasNone) {
  Context context;
  Net net(net_param(three("", "")), context, {.phase = Phase::test});
  expect_error([&] { net.backward(); }, {"without backward"});
}

TEST(Gradient, AccumulatesUntilCleared) {
  Context context;
  Net net(net_param(three("", "")), context, kDouble);
  fill_inputs(net);
  net.clear_gradients();
  net.forward();
  net.backward();
  const auto once = gradients_of(net);
  net.forward();
  net.backward();
  const auto twice = gradients_of(net);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(twice[i], 2 * once[i]);
  net.clear_gradients();
  for (double value : gradients_of(net)) EXPECT_EQ(value, 0);
}

// A fused activation that keeps gradients back let the layer before it learn all the same.
TEST(Gradient, FusionDoesNotPassWhatPropagateDownKeepsBack) {
  const std::string text = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "a" top: "a" propagate_down: false }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "b" bottom: "label" top: "loss" })";
  for (bool fuse : {false, true}) {
    SCOPED_TRACE(fuse);
    Context context;
    Net net(net_param(text), context, {.phase = Phase::train, .fuse = fuse});
    fill_inputs(net, 0.1, 1);
    net.clear_gradients();
    net.forward();
    net.backward();
    for (double g : test::values_of(net.layer("a").params()[0]->gradient())) EXPECT_EQ(g, 0);
    for (double g : test::values_of(net.layer("a").params()[1]->gradient())) EXPECT_EQ(g, 0);
    double sum = 0;
    for (double g : test::values_of(net.layer("b").params()[0]->gradient())) sum += std::abs(g);
    EXPECT_GT(sum, 0);
    for (const auto& step : net.steps()) {
      EXPECT_EQ(step.backward, step.name == "b" || step.name == "loss") << step.name;
    }
  }
}

TEST(Gradient, ALayerWithoutGradientNamesItsPlace) {
  TempFolder folder;
  std::string text = three("", "");
  const std::string loss = "top: \"loss\"";
  text.replace(text.find(loss), loss.size(), loss + " propagate_down: true propagate_down: true");
  const std::string path = folder.write("net.prototxt", text);
  Context context;
  expect_error([&] { Net(path, context, {}); },
               {path + ":7", "layer 'loss' (SoftmaxWithLoss)", "cannot propagate"});
}

}  // namespace
}  // namespace crema
