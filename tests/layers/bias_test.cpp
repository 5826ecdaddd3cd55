#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/simd.hpp"
#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

LayerCase learned(const std::string& settings, const Shape& shape = {2, 3, 5, 4}) {
  return {.layer = text("layer { type: 'Bias' bias_param { ", settings,
                        " filler { type: 'uniform' min: -1 max: 1 } } }"),
          .bottoms = {uniform(shape)}};
}

LayerCase by_bottom(const std::string& settings, const Shape& shape, const Shape& by) {
  return {.layer = text("layer { type: 'Bias' bias_param { ", settings, " } }"),
          .bottoms = {uniform(shape), uniform(by)}};
}

const auto kEveryFormat =
    UnorderedElementsAre("reference contiguous", "native contiguous", "native channels_last",
                         "native blocked8", "native blocked16");
const auto kContiguousOnly = UnorderedElementsAre("reference contiguous", "native contiguous");

TEST(Bias, OneNumberAChannel) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = "layer { type: 'Bias' }",
                  .bottoms = {given({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                  .params = {{10, -1}}},
                 {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(11, 12, 2, 3, 15, 16, 6, 7));
    run.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(run.gradient(0), ElementsAre(14, 22));
  }
}

TEST(Bias, StartsAtZero) {
  LayerRun run({.layer = "layer { type: 'Bias' }", .bottoms = {uniform({2, 3})}});
  EXPECT_THAT(run.param(0), testing::Each(0));
}

TEST(Bias, ShapesOfTheParameter) {
  auto shape_for = [](const std::string& settings) {
    LayerRun run(learned(settings));
    return run.layer().params()[0]->shape();
  };
  EXPECT_EQ(shape_for(""), Shape({3}));
  EXPECT_EQ(shape_for("axis: 0 num_axes: 2"), Shape({2, 3}));
  EXPECT_EQ(shape_for("axis: 2 num_axes: -1"), Shape({5, 4}));
  EXPECT_EQ(shape_for("axis: -1"), Shape({4}));
  EXPECT_EQ(shape_for("num_axes: 0"), Shape{});
}

TEST(Bias, Gradients) {
  for (const char* settings :
       {"", "axis: 0 num_axes: 2", "axis: 2 num_axes: -1", "num_axes: 0", "axis: -1"}) {
    check_gradients(learned(settings));
  }
  check_gradients(by_bottom("", {2, 3, 5, 4}, {3, 5}));
  check_gradients(by_bottom("axis: 0", {2, 3, 5, 4}, {2, 3, 5, 4}));
  check_gradients(by_bottom("axis: 0", {4, 3}, {}));
  // One number covers no axis: x may be without axis 1.
  check_gradients(by_bottom("", {4}, {}));
  check_gradients(learned("num_axes: 0", {4}));
}

void check_shapes() {
  for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{3, 16, 3, 3}, Shape{2, 21, 2, 2}}) {
    EXPECT_THAT(check_engines(learned("", shape)), kEveryFormat);
    EXPECT_THAT(check_engines(learned("num_axes: 0", shape)), kEveryFormat);
    EXPECT_THAT(check_engines(by_bottom("", shape, {shape[1]})), kEveryFormat);
    EXPECT_THAT(check_engines(by_bottom("axis: 0", shape, {})), kEveryFormat);
    EXPECT_THAT(check_engines(learned("axis: 2 num_axes: -1", shape)), kContiguousOnly);
    EXPECT_THAT(check_engines(by_bottom("axis: 0", shape, shape)), kContiguousOnly);
  }
  EXPECT_THAT(check_engines(learned("", {7, 30})), kContiguousOnly);
}

TEST(Bias, Engines) { check_shapes(); }

TEST(Bias, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_shapes();
  }
}

TEST(Bias, EnginesOnLargeTensors) {
  const Tolerance sums{1e-3, 1e-4};
  check_engines(learned("", {2, 40, 30, 31}), sums);
  check_engines(learned("num_axes: 0", {3, 3, 90, 80}), sums);
  check_engines(learned("", {4000, 20}), sums);
}

TEST(Bias, BackwardReadsNothing) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(by_bottom("", {2, 3, 4}, {3}), {.engine = engine});
    EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
    for (int pass = 0; pass < 2; ++pass) {
      run.forward();
      run.set_top_diff(0, std::vector<double>(24, 0.5));
      run.backward();
      EXPECT_THAT(run.bottom_diff(1), ElementsAre(4, 4, 4)) << engine;
    }
    run.backward({false, true});
    EXPECT_THAT(run.bottom_diff(1), ElementsAre(4, 4, 4)) << engine;
    run.backward({true, false});
    EXPECT_THAT(run.bottom_diff(0), testing::Each(0.5)) << engine;
  }
}

TEST(Bias, IsAStepOfBatchNorm) {
  const std::string bias =
      "layer { type: 'Bias' bias_param { filler { type: 'uniform' min: -1 max: 1 } } }";
  const LayerCase c{
      .layer = "layer { type: 'BatchNorm' }", .bottoms = {uniform({2, 6, 7, 5})}, .tail = {bias}};
  check_engines(c, {1e-4, 1e-4});
  EXPECT_FALSE(LayerRun(learned("axis: 2")).layer().as_tail_step().has_value());
  EXPECT_FALSE(LayerRun(by_bottom("", {2, 3}, {3})).layer().as_tail_step().has_value());

  const NetParameter param = net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 dim: 3 dim: 3 } } }
      layer { name: "norm" type: "BatchNorm" bottom: "x" top: "y" }
      layer { name: "bias" type: "Bias" bottom: "y" top: "y"
              bias_param { filler { type: "uniform" min: -1 max: 1 } } }
      layer { name: "s" type: "Sigmoid" bottom: "y" top: "s" loss_weight: 1 })");
  Context context;
  std::vector<double> gradients[2];
  for (const bool fuse : {false, true}) {
    Net net(param, context, {.dtype = DType::f64, .fuse = fuse});
    EXPECT_EQ(net.summary()[2].fused_into, fuse ? "norm" : "");
    fill_inputs(net);
    net.clear_gradients();
    net.forward();
    net.backward();
    gradients[fuse] = gradients_of(net);
  }
  expect_close(gradients[1], gradients[0], {1e-10, 1e-10}, "gradients");
}

TEST(Bias, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(learned(""), {.engine = engine});
    run.param_values(0) = {1, 2, 3};
    run.reshape({given({1, 3, 1, 1}, {1, 1, 1})});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(2, 3, 4)) << engine;
    expect_error([&] { run.reshape({uniform({1, 4, 1, 1})}); }, {"bias of shape 3", "1x4x1x1"});
  }
}

TEST(Bias, Mistakes) {
  expect_error([] { LayerRun{learned("num_axes: -2")}; }, {"num_axes -2", "bias", "-1"});
  expect_error([] { LayerRun{learned("num_axes: 2147483647")}; },
               {"axis 1", "num_axes 2147483647", "2x3x5x4"});
  expect_error([] { LayerRun{learned("axis: 3 num_axes: 2")}; },
               {"axis 3", "num_axes 2", "2x3x5x4"});
  expect_error([] { LayerRun{learned("axis: 4")}; }, {"4"});
  expect_error(
      [] {
        LayerRun{by_bottom("axis: 1", {2, 3, 5, 4}, {5})};
      },
      {"bias of shape 5", "axes 1", "2x3x5x4"});
}

}  // namespace
}  // namespace crema::test
