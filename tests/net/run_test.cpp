// Running a net: what the caller sees, whose random numbers, shapes that come late, programs of
// several shapes, recomputation, hooks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/convert.hpp"
#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/registry.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::gradients_of_a_pass;
using test::net_param;
using test::params_of;
using test::values_of;

constexpr const char* kConvolution = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 7 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 21 kernel_size: 3 weight_filler { type: "xavier" } } })";

// The output of a convolution that nobody reads was blocked: a diff that the caller wrote in
// N,C,H,W was nonsense.
TEST(Run, WhatTheCallerSeesIsContiguous) {
  const NetOptions options{.backward = NetOptions::Backward::yes};
  const auto gradients = [&](const std::string& engine) {
    Context context({.engine = engine});
    Net net(net_param(kConvolution), context, options);
    fill_inputs(net);
    net.forward();
    Blob& y = net.blob("y");
    EXPECT_EQ(y.data.format(), Format::contiguous);
    EXPECT_EQ(y.diff.storage(), y.count());
    float* seed = y.diff.overwrite<float>();
    for (int64_t i = 0; i < y.count(); ++i) seed[i] = static_cast<float>(i % 11) - 5;
    net.clear_gradients();
    net.backward();
    return gradients_of(net);
  };
  const std::vector<double> expected = gradients("reference"), tuned = gradients("");
  ASSERT_EQ(expected.size(), tuned.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(tuned[i], expected[i], 1e-3);
}

constexpr const char* kDropout = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 64 } } }
layer { name: "drop" type: "Dropout" bottom: "x" top: "y" })";

TEST(Run, EachForwardPassDrawsItsOwnMasks) {
  Context context;
  Net net(net_param(kDropout), context);
  net.input("x").fill(1);
  std::vector<std::vector<double>> masks;
  for (int pass = 0; pass < 3; ++pass) {
    net.forward();
    masks.push_back(values_of(net.output("y")));
  }
  EXPECT_NE(masks[0], masks[1]);
  EXPECT_NE(masks[1], masks[2]);
  EXPECT_EQ(net.run_state().iteration, 2U);
  net.run_state().iteration = 0;
  for (const auto& mask : masks) {
    net.forward();
    EXPECT_EQ(values_of(net.output("y")), mask);
  }
}

TEST(Run, TheCallersStateCounts) {
  Context context;
  RunState state{.seed = 5};
  Net net(net_param(kDropout), context, {.run = &state});
  net.input("x").fill(1);
  net.forward();
  const std::vector<double> first = values_of(net.output("y"));
  net.forward();
  EXPECT_EQ(values_of(net.output("y")), first) << "the caller has not moved on";
  ++state.iteration;
  net.forward();
  EXPECT_NE(values_of(net.output("y")), first);
}

const char* const kClassifier = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" })";

TEST(Run, BackwardAfterAFailedForwardIsAnError) {
  Context context;
  Net net(net_param(kClassifier), context);
  fill_inputs(net);
  net.forward();
  net.backward();
  net.input("label").fill(7);
  expect_error([&] { net.forward(); }, {"label 7"});
  expect_error([&] { net.backward(); }, {"backward", "forward pass before it"});
  net.input("label").fill(1);
  net.forward();
  net.backward();
}

TEST(Run, StepsDoNotMakeAFailedPassWhole) {
  Context context;
  Net net(net_param(kClassifier), context);
  fill_inputs(net);
  net.input("label").fill(7);
  expect_error([&] { net.forward(); }, {"label 7"});
  net.forward_step(0);
  expect_error([&] { net.backward(); }, {"forward pass before it"});
  net.input("label").fill(1);
  net.forward(0, 2);
  expect_error([&] { net.backward(); }, {"forward pass before it"});
  net.forward(3, 3);
  net.backward();
  Net inference(net_param(kDropout), context, {.phase = Phase::test});
  inference.forward();
  expect_error([&] { inference.backward(1, 0); }, {"without backward"});
}

/// A source whose batches have 1, 2, 3, 1, 2, 3, ... rows, of the batch's number.
class Growing : public Layer {
 public:
  using Layer::Layer;
  Arity arity() const override { return {0, 0, 1, 1}; }
  bool is_source() const override { return true; }
  TopShapes top_shapes() const override { return TopShapes::per_batch; }
  void reshape(Blobs, Blobs top) override { top[0]->reshape({1, 4}); }
  void fetch(Blobs top) override {
    if (!fetched_) ++batch_;
    fetched_ = true;
    top[0]->reshape({(batch_ - 1) % 3 + 1, 4});
  }
  void forward_cpu(Blobs, Blobs top) override {
    std::fill_n(top[0]->data.overwrite<float>(), top[0]->count(), static_cast<float>(batch_));
    fetched_ = false;
  }

 private:
  int64_t batch_ = 0;
  bool fetched_ = false;
};

TEST(Run, BatchesGiveTheirShapesBeforeThePass) {
  if (!Registry::instance().has("TestGrowing")) Registry::instance().add<Growing>("TestGrowing");
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "TestGrowing" top: "x" }
layer { name: "y" type: "TanH" bottom: "x" top: "y" })"),
          context, {.phase = Phase::test});
  for (int64_t batch = 1; batch < 9; ++batch) {
    net.forward();
    EXPECT_EQ(net.output("y").shape(), (Shape{(batch - 1) % 3 + 1, 4}));
    EXPECT_NEAR(net.output("y").at(3), std::tanh(static_cast<double>(batch)), 1e-6);
  }
}

/// The identity, which counts how often it is planned.
class Counted : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override { top[0]->data.copy_from(bottom[0]->data); }
  static inline int plans = 0;

 protected:
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    ++plans;
    return {uniform_option(bottom, top, dtype())};
  }
};

TEST(Run, ShapesThatCameBeforeAreNotPlannedAgain) {
  if (!Registry::instance().has("TestCounted")) Registry::instance().add<Counted>("TestCounted");
  Context context;
  const NetParameter text = net_param(std::string(kConvolution) + R"(
layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
layer { name: "pool" type: "Pooling" bottom: "y" top: "p" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "counted" type: "TestCounted" bottom: "p" top: "c" })");
  Counted::plans = 0;
  Net net(text, context, {.phase = Phase::test});
  const auto outputs = [&](int64_t side) {
    net.reshape_input("x", {2, 3, side, side});
    fill_inputs(net);
    net.forward();
    return values_of(net.output("c"));
  };
  const std::vector<double> nine = outputs(9), twelve = outputs(12);
  EXPECT_EQ(Counted::plans, 3);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(outputs(9), nine);
    EXPECT_EQ(outputs(12), twelve);
  }
  net.reshape();
  EXPECT_EQ(Counted::plans, 3) << "both shapes were known";
  // As after a snapshot's choices of engines were restored.
  net.replan();
  EXPECT_EQ(Counted::plans, 4);
  EXPECT_EQ(outputs(12), twelve);
  EXPECT_EQ(outputs(9), nine);
  EXPECT_EQ(Counted::plans, 5);
}

const char* const kChain = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 12 dim: 12 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "c1" RECOMPUTE
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm1" type: "BatchNorm" bottom: "c1" top: "n1" RECOMPUTE }
layer { name: "relu1" type: "ReLU" bottom: "n1" top: "r1" RECOMPUTE }
layer { name: "drop1" type: "Dropout" bottom: "r1" top: "d1" RECOMPUTE }
layer { name: "conv2" type: "Convolution" bottom: "d1" top: "c2"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm2" type: "BatchNorm" bottom: "c2" top: "n2" RECOMPUTE }
layer { name: "tanh2" type: "TanH" bottom: "n2" top: "t2" RECOMPUTE }
layer { name: "pool2" type: "Pooling" bottom: "t2" top: "p2" RECOMPUTE
        pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "p2" top: "s"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "label" top: "loss" })";

NetParameter chain(bool recompute) {
  std::string text = kChain;
  const std::string word = "RECOMPUTE";
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
    text.replace(at, word.size(), recompute ? "recompute: true" : "");
  }
  return net_param(text);
}

TEST(Run, RecomputedActivationsGiveTheSameBits) {
  Context context;
  Net plain(chain(false), context, {}), again(chain(true), context, {});
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> losses;
    for (Net* net : {&plain, &again}) {
      fill_inputs(*net);
      losses.push_back(net->forward());
      net->clear_gradients();
      net->backward();
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_EQ(gradients_of(plain), gradients_of(again));
    EXPECT_EQ(params_of(plain), params_of(again)) << "statistics move once a pass";
  }
  EXPECT_LT(again.memory().activations, plain.memory().activations);
}

// Steps behind those that run would compute the dropped values again.
TEST(Run, PartsThatLeaveOutDroppedValuesAreRefused) {
  Context context;
  Net parts(chain(true), context, {.fuse = false}), whole(chain(true), context, {.fuse = false});
  for (Net* net : {&parts, &whole}) {
    fill_inputs(*net);
    net->forward();
    net->clear_gradients();
  }
  expect_error([&] { parts.backward(5, 0); }, {"leaves out layer", "in order"});
  parts.backward(11, 6);
  parts.backward(5, 0);
  whole.backward();
  EXPECT_EQ(gradients_of(parts), gradients_of(whole));
}

TEST(Run, SaysWhenAGradientIsComplete) {
  Context context;
  Net net(chain(false), context);
  fill_inputs(net);
  std::vector<size_t> order;
  std::vector<std::vector<double>> seen(net.params().segments().size());
  net.on_gradient([&](size_t segment) {
    order.push_back(segment);
    seen[segment] = values_of(net.params().segments()[segment].parameter->gradient());
  });
  net.forward();
  net.clear_gradients();
  net.backward();
  std::vector<size_t> learning;
  const auto& segments = net.params().segments();
  for (size_t s = 0; s < segments.size(); ++s) {
    if (!segments[s].parameter->needs_gradient) continue;
    learning.push_back(s);
    EXPECT_EQ(seen[s], values_of(segments[s].parameter->gradient())) << segments[s].layer;
  }
  EXPECT_EQ(segments[order.front()].layer, "ip") << "the last layer is the first to be done";
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, learning);
}

TEST(Run, PartsOfANet) {
  Context context;
  Net net(chain(false), context, {.fuse = false, .keep_all = true});
  fill_inputs(net);
  const double loss = net.forward();
  net.clear_gradients();
  net.backward();
  const std::vector<double> gradients = gradients_of(net), scores = values_of(net.output("s"));
  net.blob("s").data.fill(0);
  net.clear_gradients();
  EXPECT_EQ(net.forward(10, 11), loss);
  EXPECT_EQ(values_of(net.output("s")), scores);
  net.backward(11, 6);
  net.backward(5, 0);
  EXPECT_EQ(gradients_of(net), gradients);
  expect_error([&] { net.forward(5, 3); }, {"5", "3"});
  expect_error([&] { net.forward(0, 99); }, {"99", "12"});
}

// The sum of the gradients of several readers was added to the sum of the pass before.
TEST(Run, PartsOfBackwardBehindSeveralReaders) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "v"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "a" type: "TanH" bottom: "v" top: "a" }
layer { name: "b" type: "Sigmoid" bottom: "v" top: "b" }
layer { name: "c" type: "ReLU" bottom: "v" top: "c" }
layer { name: "d" type: "TanH" bottom: "v" top: "d" }
layer { name: "e" type: "TanH" bottom: "v" top: "e" }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" bottom: "c" bottom: "d" bottom: "e" top: "s" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "label" top: "loss" })"),
          context, {.fuse = false, .keep_all = true});
  const std::vector<double> whole = gradients_of_a_pass(net);
  net.clear_gradients();
  net.backward(3, 0);
  EXPECT_EQ(gradients_of(net), whole);
}

// The loss weight of a blob that layers read was added again by each part that began at its layer.
TEST(Run, PartsOfBackwardAddALossWeightOnce) {
  Context context;
  for (const bool second_reader : {false, true}) {
    Net net(net_param(text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "v" loss_weight: 0.5
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "a" type: "TanH" bottom: "v" top: "a" loss_weight: 2 })",
                           second_reader ? R"(
layer { name: "b" type: "Sigmoid" bottom: "v" top: "b" loss_weight: 3 })"
                                         : "")),
            context, {.fuse = false, .keep_all = true});
    const std::vector<double> whole = gradients_of_a_pass(net);
    net.clear_gradients();
    net.backward(1, 0);
    EXPECT_EQ(gradients_of(net), whole);
    net.clear_gradients();
    net.backward(net.layers().size() - 1, 2);
    net.backward(1, 0);
    EXPECT_EQ(gradients_of(net), whole);
  }
}

// Both convolutions read one conversion, which stands in front of the first of them.
TEST(Run, PartsOfForwardConvertTheirBottoms) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 32 dim: 14 dim: 14 } } }
layer { name: "t" type: "TanH" bottom: "x" top: "t" }
layer { name: "a" type: "Convolution" bottom: "t" top: "a" convolution_param {
        num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "t" top: "b" convolution_param {
        num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "c" type: "Convolution" bottom: "a" top: "c" convolution_param {
        num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } })"),
          context, {.phase = Phase::test, .fuse = false, .keep_all = true});
  fill_inputs(net);
  net.forward();
  for (const auto& [blob, layer, top] : {std::tuple{"t", 3, "b"}, {"a", 4, "c"}}) {
    net.blob(blob).data.fill(0);
    net.forward(static_cast<size_t>(layer), static_cast<size_t>(layer));
    for (const double value : values_of(net.output(top))) ASSERT_EQ(value, 0) << top;
  }
}

TEST(Run, PartsOfForwardLoadTheBatchesOfTheirSourcesOnly) {
  if (!Registry::instance().has("TestGrowing")) Registry::instance().add<Growing>("TestGrowing");
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "TestGrowing" top: "x" }
layer { name: "y" type: "TanH" bottom: "x" top: "y" })"),
          context, {.phase = Phase::test, .keep_all = true});
  net.forward();
  const std::vector<double> y = values_of(net.output("y"));
  net.forward(1, 1);
  EXPECT_EQ(values_of(net.output("y")), y);
  for (int64_t batch = 2; batch < 5; ++batch) {
    net.forward_step(0);
    for (size_t step = 1; step < net.steps().size(); ++step) net.forward_step(step);
    EXPECT_EQ(net.output("y").shape(), (Shape{(batch - 1) % 3 + 1, 4}));
    EXPECT_NEAR(net.output("y").at(0), std::tanh(static_cast<double>(batch)), 1e-6);
  }
}

// Gradients overwrite activations, so a second backward computed something else.
TEST(Run, BackwardOnceAForward) {
  Context context;
  Net net(chain(false), context), keeps(chain(false), context, {.keep_all = true});
  for (Net* each : {&net, &keeps}) {
    fill_inputs(*each);
    each->forward();
    each->backward();
  }
  expect_error([&] { net.backward(); }, {"needs a forward pass", "backward ran already"});
  const std::vector<double> once = gradients_of(keeps);
  keeps.clear_gradients();
  keeps.backward();
  EXPECT_EQ(gradients_of(keeps), once);
}

}  // namespace
}  // namespace crema
