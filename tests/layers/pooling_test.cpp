#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/simd.hpp"
#include "crema/scratch_plan.hpp"
#include "layers/pooling_case.hpp"

namespace crema::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

/// One plane of ones.
LayerCase ones(const std::string& settings, int64_t height, int64_t width) {
  return {.layer = pooling(settings),
          .bottoms = {given({1, 1, height, width},
                            std::vector<double>(static_cast<size_t>(height * width), 1.0))}};
}

// --- Shapes
// ---------------------------------------------------------------------------------------

TEST(Pooling, RoundsUpUnlessToldOtherwise) {
  const Shape image{1, 1, 64, 64};
  const std::string window = "kernel_size: 3 pad: 1 stride: 2 ";
  EXPECT_EQ(top_shape(images(window, image)), Shape({1, 1, 33, 33}));
  EXPECT_EQ(top_shape(images(window + "round_mode: CEIL", image)), Shape({1, 1, 33, 33}));
  for (const char* down : {"round_mode: FLOOR", "ceil_mode: false", "torch_pooling: true"}) {
    EXPECT_EQ(top_shape(images(window + down, image)), Shape({1, 1, 32, 32})) << down;
  }
}

TEST(Pooling, ShapesOfPublishedNets) {
  EXPECT_EQ(top_shape(images("kernel_size: 3 stride: 2", {1, 1, 112, 112})), Shape({1, 1, 56, 56}));
  EXPECT_EQ(top_shape(images("kernel_size: 3 stride: 2", {1, 1, 55, 55})), Shape({1, 1, 27, 27}));
  EXPECT_EQ(top_shape(images("kernel_size: 5 stride: 3", {1, 1, 14, 14})), Shape({1, 1, 4, 4}));
  EXPECT_EQ(top_shape(images("kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0")),
            Shape({2, 3, 8, 4}));
  EXPECT_EQ(top_shape(images("global_pooling: true")), Shape({2, 3, 1, 1}));
}

TEST(Pooling, AWindowMayHangOverTheFarBorder) {
  // Padding included, the kernel does not fit, but a window that starts inside does see something.
  LayerRun run({.layer = pooling("kernel_size: 3 stride: 2"),
                .bottoms = {given({1, 1, 2, 2}, {1, 4, 3, 2})}});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), Shape({1, 1, 1, 1}));
  EXPECT_THAT(run.top(0), ElementsAre(4));
}

// The published layer keeps such a window where there is no padding, and computes -FLT_MAX or 0/0.
TEST(Pooling, WithPaddingAWindowBehindTheImageIsDropped) {
  EXPECT_EQ(top_shape(images("kernel_size: 2 pad: 1 stride: 3", {1, 1, 4, 4})),
            Shape({1, 1, 2, 2}));
  EXPECT_EQ(top_shape(images("kernel_size: 1 stride: 2", {1, 1, 56, 57})), Shape({1, 1, 29, 29}));
}

// --- Values
// ---------------------------------------------------------------------------------------

TEST(Pooling, MaximumAndItsMask) {
  LayerCase c{
      .layer = pooling("kernel_size: 2 stride: 2"),
      .bottoms = {given({1, 2, 2, 4}, {1, 2, 3, 4, 5, 1, 4, 3, -1, -2, -3, -3, -4, -5, -3, -2})},
      .tops = 2};
  LayerRun run(c);
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(5, 4, -1, -2));
  // Places within the plane; of equal values the first.
  EXPECT_THAT(run.top(1), ElementsAre(4, 3, 0, 7));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 2, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4));
}

// Windows of 2x2 cells have kernels of their own.
TEST(Pooling, TwoByTwoWindowsAtEveryLevel) {
  const double nan = std::nan("");
  std::vector<double> values;
  for (int i = 0; i < 6 * 44; ++i) values.push_back(i * 7 % 5);  // often equal
  for (const int place : {0, 2 * 44 + 3, 45, 44 + 3, 44 + 4, 5}) values[place] = nan;
  const LayerCase c{.layer = pooling("kernel_size: 2 stride: 2"),
                    .bottoms = {given({1, 1, 6, 44}, values)}};
  const auto results = [&](const char* engine) {
    LayerRun run(c, {.engine = engine});
    run.forward();
    std::vector<double> diff(3 * 22);
    std::iota(diff.begin(), diff.end(), 1);
    run.set_top_diff(0, diff);
    run.backward();
    return std::pair(run.top(0), run.bottom_diff(0));
  };
  const auto [top, diff] = results("reference");
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, simd_level()}) {
    const SimdLimit limit(std::min(level, simd_level()));
    const auto [native_top, native_diff] = results("native");
    EXPECT_EQ(native_diff, diff) << to_string(level);
    for (size_t i = 0; i < top.size(); ++i) {
      EXPECT_TRUE(native_top[i] == top[i] || (std::isnan(native_top[i]) && std::isnan(top[i])))
          << i;
    }
  }
}

TEST(Pooling, OverlappingWindowsAddTheirGradients) {
  LayerCase c{.layer = pooling("kernel_h: 1 kernel_w: 3 stride: 1"),
              .bottoms = {given({1, 1, 1, 5}, {0, 1, 5, 2, 1})}};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(c, {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(5, 5, 5));
    run.set_top_diff(0, {1, 2, 4});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 7, 0, 0)) << engine;
  }
}

TEST(Pooling, PaddingIsNeverTheMaximum) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(
        {.layer = pooling("kernel_size: 3 pad: 1"), .bottoms = {uniform({1, 9, 4, 4}, -3, -2)}},
        {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0), Each(testing::Lt(-2.0))) << engine;
  }
}

TEST(Pooling, AverageCountsPaddingAsPublished) {
  LayerRun run(ones("pool: AVE kernel_size: 3 pad: 1", 3, 3));
  run.forward();
  const double corner = 4.0 / 9, edge = 6.0 / 9;
  EXPECT_THAT(run.top(0),
              testing::Pointwise(testing::DoubleNear(1e-6),
                                 {corner, edge, corner, edge, 1.0, edge, corner, edge, corner}));
}

// A window is cut off where the padding ends, before its cells are counted.
TEST(Pooling, AverageAtTheFarBorder) {
  LayerRun padded(ones("pool: AVE kernel_size: 3 pad: 1 stride: 2", 4, 4));
  padded.forward();
  EXPECT_THAT(padded.top(0),
              testing::Pointwise(testing::DoubleNear(1e-6), {4.0 / 9, 2.0 / 3, 1.0 / 3, 2.0 / 3,
                                                             1.0, 0.5, 1.0 / 3, 0.5, 0.25}));
  LayerRun bare(ones("pool: AVE kernel_size: 3 stride: 2", 4, 4));
  bare.forward();
  EXPECT_THAT(bare.top(0), Each(testing::DoubleNear(1, 1e-6)));
}

TEST(Pooling, AverageOfRealCellsOnly) {
  LayerRun run(ones("pool: AVE kernel_size: 3 pad: 1 stride: 2 avg_include_pad: false", 4, 5));
  run.forward();
  EXPECT_THAT(run.top(0), Each(testing::DoubleNear(1, 1e-6)));
}

// Published shapes count windows behind the image where there is no padding: 29, not 28.
TEST(Pooling, WindowsBehindTheImageAreZero) {
  for (const char* method : {"pool: MAX", "pool: AVE", "pool: STOCHASTIC"}) {
    const LayerCase c{.layer = pooling(text(method, " kernel_size: 1 stride: 2")),
                      .bottoms = {uniform({1, 1, 4, 6}, 1, 2)}};
    LayerRun run(c, {.dtype = DType::f64});
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 1, 3, 4})) << method;
    run.forward();
    for (int i = 0; i < 12; ++i) {
      const int64_t y = 2 * (i / 4), x = 2 * (i % 4);
      const bool inside = y < 4 && x < 6;
      EXPECT_EQ(run.top(0)[static_cast<size_t>(i)],
                inside ? run.bottom_values(0)[static_cast<size_t>(y * 6 + x)] : 0)
          << method << " " << i;
    }
    check_gradients({.layer = c.layer, .bottoms = c.bottoms, .phase = Phase::test});
  }
}

TEST(Pooling, MaximumAbsorbsReLU) {
  for (const char* window : {"kernel_size: 2 stride: 2", "kernel_size: 3 stride: 2 pad: 1",
                             "kernel_size: 3 stride: 1", "kernel_size: 16 stride: 3"}) {
    // Most maxima are negative where windows are small; 16x16 cells do not fit a byte.
    LayerCase c{.layer = pooling(window), .bottoms = {uniform({2, 11, 17, 19}, -1, 0.2)}};
    c.tail = {"layer { type: 'ReLU' }"};
    EXPECT_THAT(check_engines(c), testing::SizeIs(5)) << window;
    check_gradients(
        {.layer = c.layer, .bottoms = {uniform({1, 2, 17, 19}, -1, 0.2)}, .tail = c.tail});
  }
  LayerRun run({.layer = pooling("pool: AVE kernel_size: 2"), .bottoms = {uniform({1, 1, 2, 2})}});
  const TailStep relu{.kind = TailStep::Kind::relu};
  EXPECT_FALSE(run.layer().accepts({relu})) << "a mean does not commute, nor is it masked";
  EXPECT_FALSE(run.layer().commutes_with(relu));
}

TEST(Pooling, MaximumDoesNotHideNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LayerCase c{.layer = pooling("kernel_size: 2 stride: 2"),
                    .bottoms = {given({1, 1, 2, 6}, {nan, 1, 1, 2, 1, 2, 3, 4, 3, nan, 3, 4})}};
  for (const char* engine : {"reference", "native"}) {
    const size_t options = LayerRun(c, {.engine = engine}).options().size();
    for (size_t option = 0; option < options; ++option) {
      LayerRun run(c, {.engine = engine, .option = static_cast<int>(option)});
      run.forward();
      EXPECT_TRUE(std::isnan(run.top(0)[0])) << engine;
      EXPECT_TRUE(std::isnan(run.top(0)[1])) << engine;
      EXPECT_EQ(run.top(0)[2], 4) << engine;
    }
  }
}

// Nothing beats minus infinity, and padding must not either: its gradient would go out of bounds.
TEST(Pooling, MinusInfinityEverywhere) {
  const LayerCase c{.layer = pooling("kernel_size: 3 pad: 1"),
                    .bottoms = {given({1, 1, 3, 3}, std::vector<double>(9, -INFINITY))}};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(c, {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0), Each(-INFINITY));
    run.set_top_diff(0, std::vector<double>(9, 1));
    run.backward();
    const auto diff = run.bottom_diff(0);
    EXPECT_EQ(std::accumulate(diff.begin(), diff.end(), 0.0), 9) << engine;
  }
}

// --- Stochastic
// -----------------------------------------------------------------------------------

LayerCase pairs(Phase phase) {
  std::vector<double> values;
  for (int i = 0; i < 4000; ++i) values.insert(values.end(), {1, 3});
  return {.layer = pooling("pool: STOCHASTIC kernel_h: 1 kernel_w: 2 stride_h: 1 stride_w: 2"),
          .bottoms = {given({1, 1, 1, 8000}, values)},
          .phase = phase};
}

TEST(Pooling, StochasticDrawsInProportionToTheValues) {
  LayerRun run(pairs(Phase::train));
  run.forward();
  int threes = 0;
  for (double value : run.top(0)) threes += value == 3;
  EXPECT_NEAR(threes, 3000, 120);  // over 4 standard deviations
  run.set_top_diff(0, std::vector<double>(4000, 1));
  run.backward();
  const std::vector<double> diff = run.bottom_diff(0), top = run.top(0);
  for (size_t i = 0; i < top.size(); ++i) {
    ASSERT_EQ(diff[2 * i], top[i] == 1) << i;
    ASSERT_EQ(diff[2 * i + 1], top[i] == 3) << i;
  }
}

TEST(Pooling, StochasticDrawsDependOnSeedAndIteration) {
  LayerRun run(pairs(Phase::train));
  run.forward();
  const auto first = run.top(0);
  run.forward();
  EXPECT_EQ(run.top(0), first);
  run.state().iteration = 1;
  run.forward();
  EXPECT_NE(run.top(0), first);
  LayerCase other = pairs(Phase::train);
  other.seed = 7;
  LayerRun with_other_seed(other);
  with_other_seed.forward();
  EXPECT_NE(with_other_seed.top(0), first);
}

TEST(Pooling, StochasticKeepsNaN) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    LayerRun run(
        {.layer = pooling("pool: STOCHASTIC kernel_h: 1 kernel_w: 2 stride_h: 1 stride_w: 2"),
         .bottoms = {given({1, 1, 1, 4}, {1, std::nan(""), 3, 0})},
         .phase = phase});
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[0]));
    EXPECT_EQ(run.top(0)[1], 3);
  }
}

TEST(Pooling, StochasticWeighsByTheValuesInTests) {
  LayerRun run(pairs(Phase::test));
  run.forward();
  EXPECT_THAT(run.top(0), Each(testing::DoubleNear(2.5, 1e-6)));
  LayerRun zeros({.layer = pooling("pool: STOCHASTIC kernel_size: 2"),
                  .bottoms = {given({1, 1, 2, 2}, {0, 0, 0, 0})},
                  .phase = Phase::test});
  zeros.forward();
  EXPECT_THAT(zeros.top(0), ElementsAre(0));
}

// --- Gradients and engines
// ------------------------------------------------------------------------

TEST(Pooling, Gradients) {
  for (const char* settings :
       {"kernel_size: 3 stride: 2", "kernel_size: 3 stride: 2 pad: 1", "kernel_size: 2 stride: 3",
        "kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0",
        "global_pooling: true"}) {
    check_gradients(images(settings));
    check_gradients(images(text("pool: AVE ", settings)));
    check_gradients(images(text("pool: AVE avg_include_pad: false ", settings)));
  }
  LayerCase stochastic = images("pool: STOCHASTIC kernel_size: 3 stride: 2");
  stochastic.bottoms[0].low = 0.1;
  check_gradients(stochastic);
  stochastic.phase = Phase::test;
  check_gradients(stochastic);
}

TEST(Pooling, GradientThroughTheSecondTopIsIgnored) {
  LayerCase c = images("kernel_size: 3 stride: 2");
  c.tops = 2;
  LayerRun one(images("kernel_size: 3 stride: 2")), two(c);
  for (LayerRun* run : {&one, &two}) {
    run->forward();
    run->set_top_diff(0, std::vector<double>(one.top(0).size(), 0.5));
    run->backward();
  }
  EXPECT_EQ(one.bottom_diff(0), two.bottom_diff(0));
}

void check_geometries(const std::vector<Shape>& shapes) {
  const char* const windows[] = {
      "kernel_size: 2 stride: 2",
      "kernel_size: 3 stride: 2",
      "kernel_size: 3 stride: 1 pad: 1",
      "kernel_size: 3 stride: 2 pad: 1",
      "kernel_size: 2 stride: 3 pad: 1",
      "kernel_size: 5 stride: 3 pad: 2",
      "kernel_h: 1 kernel_w: 4 stride_h: 1 stride_w: 2",
      "kernel_h: 4 kernel_w: 2 stride_h: 1 stride_w: 5 pad_h: 0 pad_w: 1",
      "kernel_size: 7 stride: 4 pad: 6",
      "global_pooling: true"};
  for (const char* window : windows) {
    for (const Shape& shape : shapes) {
      for (const char* method : {"MAX", "AVE", "AVE avg_include_pad: false"}) {
        const auto ran = check_engines(images(text("pool: ", method, " ", window), shape));
        EXPECT_THAT(ran, UnorderedElementsAreArray(kPoolingFormats));
      }
    }
  }
}

TEST(Pooling, Engines) {
  check_geometries({Shape{2, 3, 7, 8}, Shape{1, 21, 11, 23}, Shape{3, 16, 6, 6}});
}

TEST(Pooling, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_geometries({Shape{1, 21, 7, 11}});
  }
}

// Their choices do not fit a byte.
TEST(Pooling, EnginesWithLargeWindows) {
  for (const char* window : {"kernel_size: 17 stride: 2", "global_pooling: true"}) {
    for (const char* method : {"MAX", "AVE"}) {
      check_engines(images(text("pool: ", method, " ", window), {2, 9, 21, 19}));
    }
  }
}

TEST(Pooling, EnginesWithAMask) {
  for (const char* window : {"kernel_size: 2 stride: 2", "kernel_size: 3 stride: 2 pad: 1",
                             "kernel_size: 17 stride: 2 pad: 3"}) {
    for (const bool trains : {false, true}) {
      LayerCase c = images(window, {2, 16, 15, 17});
      c.tops = 2;
      c.phase = trains ? Phase::train : Phase::test;
      EXPECT_THAT(check_engines(c), UnorderedElementsAreArray(kPoolingFormats)) << window;
    }
  }
  // Planes that no window joins are places of one channel too.
  LayerCase planes = images("kernel_size_3d: [1, 2, 2] stride_3d: [1, 2, 2]", {1, 1, 2, 2, 4});
  planes.bottoms = {given({1, 1, 2, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})};
  planes.tops = 2;
  EXPECT_THAT(check_engines(planes, {}, {"native"}), ElementsAre("reference contiguous"));
  LayerRun volume(planes);
  volume.forward();
  EXPECT_THAT(volume.top(1), ElementsAre(5, 7, 13, 15));
  // Blocks of 3 channels have padding, where a mask would not be zero.
  LayerCase c = images("kernel_size: 2");
  c.tops = 2;
  EXPECT_THAT(check_engines(c),
              testing::UnorderedElementsAre("reference contiguous", "native contiguous",
                                            "native channels_last"));
  LayerRun inference(c, {.engine = "native", .trains = false});
  inference.forward();
  EXPECT_GE(inference.top(1)[0], 0);
}

TEST(Pooling, WhatTheVectorizedEngineRefuses) {
  LayerCase with_mask = images("kernel_size: 2", {2, 3, 4, 5, 6});
  with_mask.tops = 2;
  EXPECT_THAT(check_engines(with_mask, {}, {"native"}), ElementsAre("reference contiguous"));
  LayerCase stochastic = images("pool: STOCHASTIC kernel_size: 2");
  stochastic.bottoms[0].low = 0;
  EXPECT_THAT(check_engines(stochastic, {}, {"native"}), ElementsAre("reference contiguous"));
  expect_error(
      [] { LayerRun(images("kernel_size: 2"), {.dtype = DType::f64, .engine = "native"}); },
      {"native", "f32", "f64"});
}

TEST(Pooling, BackwardNeedsNoActivations) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images("kernel_size: 3 stride: 2"), {.engine = engine});
    EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
  }
}

TEST(Pooling, RemembersAByteAnOutputWhereItTrains) {
  const LayerCase c = images("kernel_size: 3 stride: 2", {2, 16, 9, 9});
  LayerRun training(c, {.engine = "native"});
  EXPECT_EQ(training.kernel().bytes(), 2u * 16 * 4 * 4);
  LayerRun inference(c, {.engine = "native", .trains = false});
  EXPECT_EQ(inference.kernel().bytes(), 0u);
  inference.forward();
  training.forward();
  EXPECT_EQ(inference.top(0), training.top(0));
}

TEST(Pooling, TheReferenceRemembersAnIntegerAnOutput) {
  LayerRun reference(images("kernel_size: 3 stride: 2", {2, 16, 9, 9}), {.engine = "reference"});
  EXPECT_EQ(reference.kernel().bytes(), 4u * 2 * 16 * 4 * 4);
}

TEST(Pooling, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images("global_pooling: true"), {.engine = engine});
    run.forward();
    run.reshape({given({1, 1, 2, 3}, {1, 2, 3, 4, 9, 5})});
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), Shape({1, 1, 1, 1}));
    EXPECT_THAT(run.top(0), ElementsAre(9));
    run.set_top_diff(0, {2});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 0, 2, 0));
  }
}

// --- Mistakes
// -------------------------------------------------------------------------------------

TEST(Pooling, Mistakes) {
  auto mistake = [](const std::string& settings, std::initializer_list<std::string_view> words,
                    const Shape& shape = {1, 1, 5, 5}) {
    expect_error([&] { LayerRun{images(settings, shape)}; }, words);
  };
  mistake("", {"no kernel", "kernel_size"});
  mistake("kernel_size: 0", {"no kernel"});
  mistake("kernel_h: 3", {"only one of", "kernel_h", "kernel_w"});
  mistake("kernel_size: 3 kernel_h: 3 kernel_w: 3", {"both", "kernel_h"});
  mistake("kernel_size: 3 stride: 0", {"stride 0"});
  mistake("kernel_size: 3 stride_h: 2", {"stride_h", "stride_w"});
  mistake("kernel_size: 3 pad: 1 pad_h: 1 pad_w: 1", {"both", "pad"});
  mistake("kernel_size: 3 pad: 3", {"pad 3 must be smaller than kernel 3"});
  mistake("kernel_h: 4 kernel_w: 2 pad: 2", {"pad 2 must be smaller than kernel 2"});
  mistake("kernel_size: 7", {"kernel 7 exceeds the padded input 5", "pad"});
  mistake("kernel_size: 9 pad: 1 stride: 2", {"kernel 9 exceeds the padded input 7"});
  mistake("kernel_size: 6 stride: 2 round_mode: FLOOR", {"kernel 6 exceeds the padded input 5"});
  mistake("global_pooling: true kernel_size: 3", {"global_pooling", "kernel"});
  mistake("global_pooling: true pad: 1", {"global_pooling", "pad"});
  mistake("global_pooling: true stride: 2", {"global_pooling", "stride"});
  mistake("pool: STOCHASTIC kernel_size: 3 pad: 1", {"STOCHASTIC", "pad 1"});
  mistake("kernel_size: 3 kernel_size_3d: 3", {"both", "kernel_size_3d"});
  mistake("kernel_size_3d: 3 kernel_size_3d: 3 kernel_size_3d: 3",
          {"kernel_size_3d has 3 values", "2 spatial axes"});
  mistake("kernel_size: 2 stride_h: 1 stride_w: 2", {"stride_h", "2 values", "3 spatial axes"},
          {1, 1, 4, 4, 4});
  mistake("kernel_size: 2 pad_3d: 0 pad_3d: 2 pad_3d: 1", {"pad 2", "kernel 2"}, {1, 1, 4, 4, 4});
  mistake("kernel_size: 1", {"images", "1x1x2x2x2x2"}, {1, 1, 2, 2, 2, 2});
  mistake("kernel_size: 3 axis: 2", {"axis 2"});
  mistake("kernel_size: 3", {"images", "2x8"}, {2, 8});
  mistake("kernel_size: 3", {"images", "2x3x0x4"}, {2, 3, 0, 4});
}

TEST(Pooling, PlansTheRowsOfItsThreads) {
  const LayerCase c = images("kernel_size: 3 stride: 2", {1, 16, 20, 100});
  for (int option = 0; option < 2; ++option) {
    LayerRun run(c, {.engine = "native", .option = option});
    ScratchPlan plan(3);
    run.kernel().plan_scratch(plan);
    if (run.option().bottoms[0].format == Format::contiguous) {
      EXPECT_GE(plan.bytes(), size_t{3 * 100 * 16});
    } else {
      EXPECT_EQ(plan.bytes(), 0U);
    }
  }
}

}  // namespace
}  // namespace crema::test
