// Activations of 16 bits, and how a device computes: what a net rounds, and what it leaves exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "crema/net.hpp"
#include "crema/registry.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::net_param;
using test::values_of;

const char* const kChain = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 12 dim: 12 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "c1"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm1" type: "BatchNorm" bottom: "c1" top: "n1" }
layer { name: "relu1" type: "ReLU" bottom: "n1" top: "r1" }
layer { name: "drop1" type: "Dropout" bottom: "r1" top: "d1" }
layer { name: "conv2" type: "Convolution" bottom: "d1" top: "c2"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm2" type: "BatchNorm" bottom: "c2" top: "n2" }
layer { name: "tanh2" type: "TanH" bottom: "n2" top: "t2" }
layer { name: "pool2" type: "Pooling" bottom: "t2" top: "p2"
        pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "p2" top: "s"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "label" top: "loss" })";

/// Of the squares.
double relative_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return difference / size;
}

TEST(Precision, Bf16ActivationsAreRoundedBetweenLayers) {
  Context context;
  NetParameter param = net_param(kChain);
  param.set_precision(NetParameter::BF16);
  Net net(param, context);
  Net single(net_param(kChain), context);
  fill_inputs(net);
  fill_inputs(single);
  const double loss = net.forward(), exact = single.forward();
  EXPECT_NE(loss, exact);
  EXPECT_NEAR(loss, exact, 0.02 * std::abs(exact));
  net.clear_gradients();
  single.clear_gradients();
  net.backward();
  single.backward();
  const double difference = relative_difference(gradients_of(net), gradients_of(single));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.01);
  EXPECT_LT(net.memory().activations, single.memory().activations * 3 / 2);
  bool any = false;
  for (const NetStep& step : net.steps()) any = any || step.top_format.starts_with("bf16");
  EXPECT_TRUE(any);
  expect_error(
      [&] { Net(net_param(kChain), context, {.dtype = DType::f64, .activations = DType::bf16}); },
      {"f64", "bf16"});
}

/// Adds 1, in channels-last bf16. As an engine of a GPU, it also reads what the net's input holds.
class AddsOne : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override {
    const Tensor from = bottom[0]->data.to(DType::f32, Format::contiguous);
    Tensor to(from.shape());
    for (int64_t i = 0; i < from.count(); ++i) to.change<float>()[i] = from.read<float>()[i] + 1;
    top[0]->data.copy_from(to);
  }
};

class AddsOneEngine : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs bottom, Blobs top, std::string&) const override {
    const auto last = Format::channels_last;
    Option own = uniform_option(bottom, top, DType::bf16, last, last), first = own;
    first.bottoms[0] = {DType::f32, Format::contiguous};
    return {own, first};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    class AddsOneKernel : public Kernel {
     public:
      explicit AddsOneKernel(Layer& layer) : Kernel(layer), layer_(layer) {}
      void forward(Blobs bottom, Blobs top) override { layer_.forward_cpu(bottom, top); }
      void backward(Blobs, const std::vector<bool>&, Blobs) override {}
      InPlace in_place() const override { return InPlace::never; }

     private:
      Layer& layer_;
    };
    return std::make_unique<AddsOneKernel>(layer);
  }
};

// As convolutions of a GPU: the input is read as it is, and nothing is converted in between.
TEST(Precision, EnginesOf16BitsNeedOneConversion) {
  if (!Registry::instance().has("TestAddsOne")) {
    Registry::instance().add<AddsOne>("TestAddsOne");
    Registry::instance().add_engine<AddsOneEngine>("TestAddsOne", "short", DeviceType::cpu);
  }
  Context context;
  Net net(net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }
      layer { name: "a" type: "TestAddsOne" bottom: "x" top: "a" }
      layer { name: "b" type: "TestAddsOne" bottom: "a" top: "b" }
      layer { name: "y" type: "TestAddsOne" bottom: "b" top: "y" })"),
          context, {.phase = Phase::test, .activations = DType::bf16});
  std::vector<std::string> steps;
  for (const NetStep& step : net.steps())
    steps.push_back(text(step.type, ": ", step.bottom_format, " > ", step.top_format));
  EXPECT_THAT(steps, ::testing::ElementsAre("Input:  > contiguous",
                                            "TestAddsOne: contiguous > bf16 channels_last",
                                            "TestAddsOne: bf16 channels_last > bf16 channels_last",
                                            "TestAddsOne: bf16 channels_last > bf16 channels_last",
                                            "Conversion: bf16 channels_last > contiguous"));
  net.input("x").fill(0.5);
  net.forward();
  EXPECT_THAT(values_of(net.blob("y").data), ::testing::Each(3.5));
}

TEST(Precision, F16NetsComputeNearlyTheSame) {
  Context context;
  NetParameter param = net_param(kChain);
  param.set_precision(NetParameter::F16);
  Net net(param, context), single(net_param(kChain), context);
  fill_inputs(net);
  fill_inputs(single);
  const double loss = net.forward(), exact = single.forward();
  EXPECT_NE(loss, exact);
  EXPECT_NEAR(loss, exact, 0.002 * std::abs(exact));
  for (Net* each : {&net, &single}) {
    each->clear_gradients();
    each->backward();
  }
  const double difference = relative_difference(gradients_of(net), gradients_of(single));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.001);
  bool any = false;
  for (const NetStep& step : net.steps()) any = any || step.top_format.starts_with("f16");
  EXPECT_TRUE(any);
}

TEST(Precision, ArithmeticReachesTheLayers) {
  Context context;
  const auto arithmetic = [&](const NetParameter& param, const NetOptions& options = {}) {
    return Net(param, context, options).layers().back()->arithmetic();
  };
  NetParameter param = net_param(kChain);
  EXPECT_EQ(arithmetic(param), Arithmetic());
  EXPECT_EQ(arithmetic(param).workspace_limit, size_t{1} << 30);
  param.set_math(NetParameter::STRICT);
  param.set_deterministic(false);
  param.set_workspace_limit(16);
  const Arithmetic other{Math::strict, false, size_t{16} << 20};
  EXPECT_EQ(arithmetic(param), other);
  EXPECT_EQ(arithmetic(param, {.math = Math::tf32, .deterministic = true}),
            (Arithmetic{Math::tf32, true, size_t{16} << 20}));
  // Scratch memory counts against the budget.
  EXPECT_EQ(arithmetic(param, {.memory_budget = 64 << 20}).workspace_limit, size_t{8} << 20);
  Net owner(param, context, {.phase = Phase::test});
  EXPECT_EQ(owner.runner().layers().back()->arithmetic(), other);
}

// 997 is 996 in bf16. Each layer between the label and the loss only moves values.
TEST(Precision, LabelsStayExactBehindLayersThatMoveThem) {
  const std::string net = R"(
      layer { name: "x" type: "Input" top: "x" top: "labels"
              input_param { shape { dim: 2 dim: 1000 } shape { dim: 2 dim: 2 } } }
      layer { name: "cut" type: "Slice" bottom: "labels" top: "label" top: "other" }
      layer { name: "rest" type: "Silence" bottom: "other" }
      layer { name: "tile" type: "Tile" bottom: "label" top: "twice" tile_param { tiles: 2 } }
      layer { name: "column" type: "Slice" bottom: "twice" top: "first" top: "second" }
      layer { name: "rest2" type: "Silence" bottom: "second" }
      layer { name: "flat" type: "Reshape" bottom: "first" top: "flat" reshape_param { shape { dim: 2 } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "flat" top: "loss" })";
  std::vector<double> losses;
  for (const DType activations : {DType::f32, DType::bf16}) {
    Context context;
    Net built(net_param(net), context, {.activations = activations});
    float* const x = built.input("x").overwrite<float>();
    for (int i = 0; i < 2000; ++i) x[i] = i % 1000 == 997 ? 3 : 0;
    std::ranges::fill_n(built.input("labels").overwrite<float>(), 4, 997.0F);
    losses.push_back(built.forward());
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-3);
}

TEST(Precision, WhatTheCallerSeesStaysF32) {
  Context context;
  Net net(net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 7 } } }
      layer { name: "conv" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 21 kernel_size: 3 weight_filler { type: "xavier" } } })"),
          context, {.phase = Phase::test, .activations = DType::bf16});
  EXPECT_EQ(net.input("x").dtype(), DType::f32);
  EXPECT_EQ(net.blob("y").data.dtype(), DType::f32);
}

}  // namespace
}  // namespace crema
