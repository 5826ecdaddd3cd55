#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/simd.hpp"
#include "crema/scratch_plan.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;
using testing::UnorderedElementsAre;

std::string lrn(const std::string& settings) {
  return text("layer { type: 'LRN' lrn_param { ", settings, " } }");
}

LayerCase drawn(const std::string& settings, const Shape& shape) {
  return {.layer = lrn(settings), .bottoms = {uniform(shape, -2, 2)}};
}

TEST(LRN, AcrossChannels) {
  LayerRun run({.layer = lrn("local_size: 3 alpha: 0.6 beta: 0.5 k: 2"),
                .bottoms = {given({1, 4, 1, 1}, {1, 2, -3, 4})}});
  run.forward();
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6),
                                    {1 / std::sqrt(2 + 0.2 * 5), 2 / std::sqrt(2 + 0.2 * 14),
                                     -3 / std::sqrt(2 + 0.2 * 29), 4 / std::sqrt(2 + 0.2 * 25)}));
}

TEST(LRN, PublishedDefaults) {
  LayerRun run({.layer = "layer { type: 'LRN' }", .bottoms = {given({1, 1}, {2})}});
  run.forward();
  // local_size 5, alpha 1, beta 0.75, k 1
  EXPECT_NEAR(run.top(0)[0], 2 / std::pow(1 + 4 / 5.0, 0.75), 1e-6);
}

// Zeros around the image count as values of the neighbourhood; k is left out.
TEST(LRN, WithinChannel) {
  LayerRun run({.layer = lrn("local_size: 3 alpha: 0.9 beta: 1 k: 5 norm_region: WITHIN_CHANNEL"),
                .bottoms = {given({1, 2, 2, 2}, {1, 2, 3, 4, 0, 0, 0, 1})}});
  run.forward();
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6),
                                    {1 / 4.0, 2 / 4.0, 3 / 4.0, 4 / 4.0, 0.0, 0.0, 0.0, 1 / 1.1}));
}

TEST(LRN, Gradients) {
  for (const char* settings :
       {"alpha: 0.5", "local_size: 3 alpha: 1 beta: 0.6 k: 2", "local_size: 1 alpha: 2",
        "local_size: 9 alpha: 3 beta: 1.5", "local_size: 3 alpha: 0.8 norm_region: WITHIN_CHANNEL",
        "local_size: 5 alpha: 3 beta: 0.6 norm_region: WITHIN_CHANNEL"}) {
    check_gradients(drawn(settings, {2, 5, 3, 4}));
  }
  check_gradients(drawn("local_size: 3", {2, 6}));
  check_gradients(drawn("local_size: 3", {2, 3, 2, 2, 2}));
}

void check_regions() {
  for (const char* settings : {"alpha: 0.5", "local_size: 3 alpha: 1 beta: 0.6 k: 2",
                               "local_size: 9 alpha: 3", "local_size: 1 alpha: 1 beta: 1"}) {
    for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{1, 21, 3, 5}, Shape{2, 16, 19, 23}}) {
      EXPECT_THAT(
          check_engines(drawn(settings, shape)),
          UnorderedElementsAre("reference contiguous", "native contiguous", "native channels_last",
                               "native blocked8", "native blocked16"));
    }
    EXPECT_THAT(check_engines(drawn(settings, {3, 11})),
                UnorderedElementsAre("reference contiguous", "native contiguous"));
    EXPECT_THAT(check_engines(drawn(text(settings, " norm_region: WITHIN_CHANNEL"), {2, 3, 5, 7})),
                UnorderedElementsAre("reference contiguous", "native contiguous"));
  }
}

TEST(LRN, Engines) { check_regions(); }

TEST(LRN, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_regions();
  }
}

TEST(LRN, WithoutKPaddingWouldNotStayZero) {
  EXPECT_THAT(
      check_engines({.layer = lrn("alpha: 1 k: 0"), .bottoms = {uniform({2, 7, 3, 5}, 1, 2)}}),
      UnorderedElementsAre("reference contiguous", "native contiguous", "native channels_last"));
}

// More elements than one part of the work holds.
TEST(LRN, EnginesOnManyPixels) {
  check_engines(drawn("alpha: 0.5", {1, 40, 30, 33}));
  check_engines(drawn("alpha: 0.5 norm_region: WITHIN_CHANNEL", {3, 2, 80, 90}));
}

// Powers by logarithm and exponential have to give what these do not: NaN, and 0 for infinity.
TEST(LRN, NaNAndInfinityAreSeen) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* settings : {"local_size: 1", "local_size: 1 beta: 0.6"}) {
    for (const char* engine : {"reference", "native"}) {
      SCOPED_TRACE(text(engine, " ", settings));
      LayerRun run({.layer = lrn(settings),
                    .bottoms = {given({1, 3, 1, 2}, {std::nan(""), 1, infinity, 1, 1e30, 1})}},
                   {.engine = engine});
      run.forward();
      EXPECT_TRUE(std::isnan(run.top(0)[0]));
      EXPECT_TRUE(std::isnan(run.top(0)[2]));
      EXPECT_EQ(run.top(0)[4], 0);
      LayerRun negative(
          {.layer = lrn(text(settings, " k: -2")), .bottoms = {given({1, 1, 1, 1}, {1})}},
          {.engine = engine});
      negative.forward();
      EXPECT_TRUE(std::isnan(negative.top(0)[0]));
    }
  }
}

// A large value must leave nothing behind in the sums of the channels after it.
TEST(LRN, LargeValuesDoNotSpillOver) {
  std::vector<double> values(64, 1e-2);
  values[10] = 1e6;
  const LayerCase c{.layer = lrn("local_size: 3 alpha: 3"),
                    .bottoms = {given({1, 64, 1, 1}, values)}};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(c, {.engine = engine});
    run.forward();
    EXPECT_NEAR(run.top(0)[20], 1e-2 / std::pow(1 + 3e-4, 0.75), 1e-8) << engine;
  }
}

// What backward reads is not what the ReLU behind it overwrites.
TEST(LRN, ReLUInPlaceBehindIt) {
  Context context;
  Net net(net_param(R"(
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 6 dim: 3 dim: 3 } } }
    layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 4 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
            convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: "xavier" } } }
    layer { name: "norm" type: "LRN" bottom: "conv" top: "norm" lrn_param { alpha: 1 } }
    layer { name: "relu" type: "ReLU" bottom: "norm" top: "norm" }
    layer { name: "ip" type: "InnerProduct" bottom: "norm" top: "ip"
            inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" })"),
          context, {.dtype = DType::f64});
  fill_inputs(net);
  check_net_gradients(net);
}

TEST(LRN, KeepsNothingForBackwardButItsBottom) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(drawn("", {2, 5, 3, 4}), {.engine = engine});
    EXPECT_TRUE(run.kernel().backward_reads().bottom_data);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
  }
  LayerRun run(drawn("", {2, 5, 3, 4}), {.engine = "native"});
  EXPECT_EQ(run.kernel().bytes(), 0u);
}

TEST(LRN, PlansTheScratchMemoryOfItsThreads) {
  const auto planned = [](const std::string& settings, int threads) {
    LayerRun run(drawn(settings, {2, 5, 3, 4}), {.engine = "native"});
    ScratchPlan plan(threads);
    run.kernel().plan_scratch(plan);
    return plan.bytes() / sizeof(float);
  };
  EXPECT_EQ(planned("", 1), 5u * 256);
  EXPECT_EQ(planned("", 4), 2 * 5u * 256);  // one part an image
  EXPECT_EQ(planned("norm_region: WITHIN_CHANNEL", 1), 2u * 12 + 4 + 4);
}

TEST(LRN, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(drawn("local_size: 3", {2, 5, 3, 4}), {.engine = engine});
    run.reshape({given({1, 5, 1, 1}, {0, 0, 3, 0, 0})});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(0, 0, DoubleNear(3 / std::pow(1 + 3, 0.75), 1e-6), 0, 0));
  }
}

TEST(LRN, Mistakes) {
  expect_error([] { LayerRun{drawn("local_size: 4", {1, 5, 2, 2})}; }, {"local_size 4", "odd"});
  expect_error([] { LayerRun{drawn("local_size: 0", {1, 5, 2, 2})}; }, {"local_size 0", "odd"});
  expect_error([] { LayerRun{drawn("", {5})}; }, {"(N, C, ...)", "5"});
  expect_error(
      [] {
        LayerRun{drawn("norm_region: WITHIN_CHANNEL", {2, 5})};
      },
      {"WITHIN_CHANNEL", "(N, C, H, W)", "2x5"});
}

}  // namespace
}  // namespace crema::test
