// Layers that run as the tail of another layer: what they compute, and what learns.
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::gradients_of_a_pass;
using test::net_param;
using test::values_of;

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
}

/// Runs two forward and backward passes, the second of which finds the memory that the first left,
/// and compares loss, gradients and, with `input`, the gradient of 'x' with those of `exact`.
void expect_passes_of(Net& exact, double loss, Net& net, bool input, double tolerance,
                      double of_gradients) {
  fill_inputs(net);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_NEAR(net.forward(), loss, tolerance);
    net.clear_gradients();
    net.backward();
    expect_near(gradients_of(net), gradients_of(exact), of_gradients);
    if (input) {
      expect_near(values_of(net.blob("x").diff), values_of(exact.blob("x").diff), tolerance);
    }
  }
}

// What is fused runs backward together.
TEST(Tails, AFusedLayerDoesNotLearnBehindPropagateDown) {
  Context context;
  const NetParameter param = net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 5 dim: 6 dim: 6 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "a" top: "b" propagate_down: false
        convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "s"
        propagate_down: true propagate_down: false }
layer { name: "ip" type: "InnerProduct" bottom: "s" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" })");
  Net fused(param, context), plain(param, context, {.fuse = false});
  expect_near(gradients_of_a_pass(fused), gradients_of_a_pass(plain), 1e-5);
}

// A residual block without BatchNorm: the convolution adds the shortcut and rectifies the sum.
TEST(Tails, AConvolutionAddsAShortcut) {
  for (const char* shortcut : {"a", "x"}) {
    for (const char* relu : {"", R"(layer { name: "relu" type: "ReLU" bottom: "s" top: "s" })"}) {
      const std::string prototxt = text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 21 dim: 9 dim: 7 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a" param { lr_mult: 1 }
        convolution_param { num_output: 21 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "a" top: "b"
        convolution_param { num_output: 21 kernel_size: 3 pad: 1 weight_filler { type: "xavier" }
                            bias_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "sum" type: "Eltwise" bottom: ")",
                                        shortcut, R"(" bottom: "b" top: "s" })", relu, R"(
layer { name: "ip" type: "InnerProduct" bottom: "s" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }
force_backward: true)");
      SCOPED_TRACE(prototxt);
      Context exact_context({.engine = "reference"});
      Net exact(net_param(prototxt), exact_context, {.dtype = DType::f64, .fuse = false});
      fill_inputs(exact);
      const double loss = exact.forward();
      exact.backward();
      for (const char* engine : {"", "reference", "onednn", "direct", "winograd", "im2col"}) {
        SCOPED_TRACE(engine);
        Context context({.engine = engine});
        NetParameter param = net_param(prototxt);
        if (std::string(engine) == "winograd") param.mutable_layer(1)->set_engine("reference");
        Net net(param, context);
        EXPECT_EQ(net.summary()[3].fused_into, "b");
        expect_passes_of(exact, loss, net, true, 1e-5, 1e-4);
      }
    }
  }
}

// A block of a transformer in inference: a product applies the GELU behind it, another adds the
// shortcut.
TEST(Tails, InnerProductsApplyGELUAndAddAShortcutInInference) {
  for (const char* approximate : {"NONE", "TANH"}) {
    for (const int rows : {3, 70}) {
      const std::string prototxt = text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: )",
                                        rows, R"( dim: 50 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a"
        inner_product_param { num_output: 77 axis: 2 weight_filler { type: "xavier" }
                              bias_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "gelu" type: "GELU" bottom: "a" top: "a" gelu_param { approximate: )",
                                        approximate, R"( } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b"
        inner_product_param { num_output: 50 axis: 2 weight_filler { type: "xavier" }
                              bias_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "b" top: "s" })");
      SCOPED_TRACE(prototxt);
      Context exact_context({.engine = "reference"});
      Net exact(net_param(prototxt), exact_context,
                {.phase = Phase::test, .dtype = DType::f64, .fuse = false});
      fill_inputs(exact);
      exact.forward();
      for (const char* engine : {"", "reference", "tuned", "native"}) {
        for (const DType dtype : {DType::f32, DType::f64}) {
          if (dtype == DType::f64 && std::string(engine) != "reference") continue;
          SCOPED_TRACE(text(engine, " ", to_string(dtype)));
          Context context({.engine = engine});
          Net net(net_param(prototxt), context, {.phase = Phase::test, .dtype = dtype});
          EXPECT_EQ(net.summary()[2].fused_into, "a");
          EXPECT_EQ(net.summary()[4].fused_into, "b");
          fill_inputs(net);
          net.forward();
          expect_near(values_of(net.blob("s").data), values_of(exact.blob("s").data), 1e-5);
        }
      }
      // Backward of a GELU reads what is before it.
      Context context;
      Net training(net_param(prototxt), context, {.phase = Phase::train});
      EXPECT_EQ(training.summary()[2].fused_into, "");
    }
  }
}

// Queries, keys and values that one product makes: Attention reads them where they lie.
TEST(Tails, AttentionReadsThePartsOfASlice) {
  const auto prototxt = [](const char* lengths, const char* more) {
    return text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 37 dim: 9 } } }
layer { name: "lengths" type: "DummyData" top: "lengths"
        dummy_data_param { shape { dim: 2 } data_filler { type: "constant" value: 21 } } }
layer { name: "qkv" type: "InnerProduct" bottom: "x" top: "qkv"
        inner_product_param { num_output: 36 axis: 2 weight_filler { type: "gaussian" std: 0.5 } } }
layer { name: "cut" type: "Slice" bottom: "qkv" top: "q" top: "k" top: "v"
        slice_param { axis: 2 } }
layer { name: "attention" type: "Attention" bottom: "q" bottom: "k" bottom: "v" )",
                lengths, R"( top: "y" attention_param { num_heads: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "y" top: "scores"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
force_backward: true )",
                more);
  };
  for (const char* lengths : {"", "bottom: 'lengths'"}) {
    SCOPED_TRACE(lengths);
    Context context;
    const NetParameter param = net_param(prototxt(lengths, ""));
    Net exact(param, context, {.dtype = DType::f64, .fuse = false});
    EXPECT_EQ(exact.summary()[3].fused_into, "");
    fill_inputs(exact);
    const double loss = exact.forward();
    exact.backward();
    Net fused(param, context, {.dtype = DType::f64}), net(param, context);
    EXPECT_EQ(fused.summary()[3].fused_into, "attention");
    expect_passes_of(exact, loss, fused, true, 1e-12, 1e-12);
    expect_passes_of(exact, loss, net, true, 1e-5, 1e-4);
  }
  Context context;
  // Somebody else reads a part.
  Net read(net_param(prototxt("", "layer { name: 'silence' type: 'Silence' bottom: 'k' }")),
           context);
  EXPECT_EQ(read.summary()[3].fused_into, "");
  Net kept(net_param(prototxt("", "")), context, {.keep = {"v"}});
  EXPECT_EQ(kept.summary()[3].fused_into, "");
}

// A residual block: BatchNorm adds the shortcut and rectifies the sum.
TEST(Tails, ABatchNormAddsAShortcut) {
  struct Case {
    const char* shortcut;
    bool relu;
    const char* norm;    // of BatchNorm
    const char* scale;   // of Scale, its parameters
    const char* branch;  // of the convolution before BatchNorm, its parameters
  };
  const Case cases[] = {
      {"a", true, "", "", ""},
      {"a", false, "", "", ""},
      {"x", true, "", "", ""},
      {"a", true, "use_global_stats: true eps: 1", "", ""},
      {"a", false, "use_global_stats: true eps: 1", "", ""},
      {"a", true, "use_global_stats: true eps: 1", "param { lr_mult: 0 } param { lr_mult: 0 }", ""},
      // Nothing in the branch learns or passes on, so its BatchNorm's bottom needs no gradient.
      {"a", true, "", "param { lr_mult: 0 } param { lr_mult: 0 }", "propagate_down: false"},
      {"a", true, "use_global_stats: true eps: 1", "param { lr_mult: 0 } param { lr_mult: 0 }",
       "propagate_down: false"},
  };
  for (const Case& c : cases) {
    const bool stops = *c.branch != 0;
    const std::string prototxt = text(
        R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 21 dim: 9 dim: 7 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 21 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "a" top: "b" )",
        c.branch, stops ? " param { lr_mult: 0 } param { lr_mult: 0 }" : "", R"(
        convolution_param { num_output: 21 kernel_size: 3 pad: 1 weight_filler { type: "xavier" }
                            bias_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "bn" type: "BatchNorm" bottom: "b" top: "b" batch_norm_param { )",
        c.norm, R"( } }
layer { name: "scale" type: "Scale" bottom: "b" top: "b" )",
        c.scale, R"( scale_param { bias_term: true filler { type: "uniform" min: 0.5 max: 2 }
                                   bias_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "sum" type: "Eltwise" bottom: ")",
        c.shortcut, R"(" bottom: "b" top: "s" })",
        c.relu ? R"(layer { name: "relu" type: "ReLU" bottom: "s" top: "s" })" : "", R"(
layer { name: "ip" type: "InnerProduct" bottom: "s" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }
)",
        stops ? "" : "force_backward: true");
    SCOPED_TRACE(prototxt);
    Context exact_context({.engine = "reference"});
    Net exact(net_param(prototxt), exact_context, {.dtype = DType::f64, .fuse = false});
    fill_inputs(exact);
    const double loss = exact.forward();
    exact.backward();
    const auto compare = [&](Net& net, double tolerance) {
      EXPECT_EQ(net.summary()[3].fused_into, "");
      for (const size_t layer : {4, 5}) EXPECT_EQ(net.summary()[layer].fused_into, "bn");
      expect_passes_of(exact, loss, net, !stops, tolerance, 10 * tolerance);
    };
    for (const char* engine : {"native", "reference"}) {
      // What the convolutions run with decides the memory format of BatchNorm.
      for (const char* around : {"reference", "direct", "onednn"}) {
        SCOPED_TRACE(text(engine, " between ", around));
        NetParameter param = net_param(prototxt);
        param.mutable_layer(1)->set_engine(around);
        param.mutable_layer(2)->set_engine(around);
        param.mutable_layer(3)->set_engine(engine);
        Context context;
        Net net(param, context);
        compare(net, 1e-5);
      }
    }
    Net in_double(net_param(prototxt), exact_context, {.dtype = DType::f64});
    compare(in_double, 1e-12);
  }
}

// The BatchNorm that computes the sum runs backward for the shortcut. The Scale in it would learn.
TEST(Tails, AScaleBehindWhichNothingIsPropagatedDoesNotLearn) {
  for (const bool fuse : {false, true}) {
    Context context;
    Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 5 dim: 4 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 3 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "a" top: "b" propagate_down: false }
layer { name: "scale" type: "Scale" bottom: "b" top: "c" scale_param { bias_term: true } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "c" top: "s"
        propagate_down: true propagate_down: false }
layer { name: "ip" type: "InnerProduct" bottom: "s" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" })"),
            context, {.fuse = fuse});
    fill_inputs(net);
    net.forward();
    net.backward();
    for (const auto& parameter : net.layers()[3]->params())
      for (const double value : values_of(parameter->diff)) EXPECT_EQ(value, 0) << fuse;
  }
}

TEST(Tails, ABatchNormAddsWhatItNormalizes) {
  const char* text = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 20 dim: 5 dim: 4 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 20 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "a" top: "b" batch_norm_param { scale_bias: true } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "s" }
layer { name: "relu" type: "ReLU" bottom: "s" top: "s" }
layer { name: "ip" type: "InnerProduct" bottom: "s" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" })";
  Context context;
  Net fused(net_param(text), context), plain(net_param(text), context, {.fuse = false});
  EXPECT_EQ(fused.summary()[3].fused_into, "bn");
  expect_near(gradients_of_a_pass(fused), gradients_of_a_pass(plain), 1e-5);
}

}  // namespace
}  // namespace crema
