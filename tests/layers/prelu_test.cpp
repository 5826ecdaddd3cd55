#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::string prelu(const std::string& settings) {
  return text("layer { type: 'PReLU' prelu_param { ", settings, " } }");
}

const char* const kAnySlope = "filler { type: 'uniform' min: -0.5 max: 1.5 } ";

LayerCase images(const std::string& settings = "", const Shape& shape = {2, 3, 5, 4}) {
  return {.layer = prelu(text(kAnySlope, settings)), .bottoms = {uniform(shape)}};
}

const char* const kShared = "channel_shared: true";
const auto kEveryFormat =
    UnorderedElementsAre("reference contiguous", "reference channels_last", "native contiguous",
                         "native channels_last", "native blocked8", "native blocked16");
const auto kContiguousOnly = UnorderedElementsAre("reference contiguous", "native contiguous");

TEST(PReLU, OneSlopeAChannel) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = prelu(""),
                  .bottoms = {given({2, 2, 1, 2}, {1, -2, -3, 4, -5, 0, 7, -8})},
                  .params = {{0.5, -2}}},
                 {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(1, -1, 6, 4, -2.5, 0, 7, 16)) << engine;
    run.set_top_diff(0, {1, 1, 1, 1, 2, 3, 1, 1});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 0.5, -2, 1, 1, 1.5, 1, -2)) << engine;
    EXPECT_THAT(run.gradient(0), ElementsAre(-12, -11)) << engine;
  }
}

TEST(PReLU, OneSlopeForAllChannels) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = prelu(kShared),
                  .bottoms = {given({1, 2, 1, 2}, {1, -2, -3, 4})},
                  .params = {{0.5}}},
                 {.engine = engine});
    EXPECT_EQ(run.layer().params()[0]->shape(), Shape{});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(1, -1, -1.5, 4)) << engine;
    run.set_top_diff(0, {1, 1, 1, 1});
    run.backward();
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 0.5, 0.5, 1)) << engine;
    EXPECT_THAT(run.gradient(0), ElementsAre(-5)) << engine;
  }
}

TEST(PReLU, SlopesStartAtAQuarter) {
  LayerRun run({.layer = prelu(""), .bottoms = {uniform({2, 3, 2, 2})}});
  EXPECT_EQ(run.layer().params()[0]->shape(), Shape{3});
  EXPECT_THAT(run.param(0), Each(0.25));
}

TEST(PReLU, Gradients) {
  const GradientCheck check{.kink_range = 1e-3};
  for (const char* settings : {"", kShared}) {
    for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{3, 4}, Shape{2, 1, 7}, Shape{1, 5, 1, 1}}) {
      check_gradients(images(settings, shape), check);
    }
  }
  check_gradients(images(kShared, {6}), check);
}

void check_shapes() {
  for (const char* settings : {"", kShared}) {
    for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{3, 16, 3, 3}, Shape{1, 21, 1, 1}}) {
      EXPECT_THAT(check_engines(images(settings, shape)), kEveryFormat);
    }
    EXPECT_THAT(check_engines(images(settings, {7, 30})), kContiguousOnly);
  }
  EXPECT_THAT(check_engines(images(kShared, {13})), kContiguousOnly);
  EXPECT_THAT(check_engines(images(kShared, {})), kContiguousOnly);
}

TEST(PReLU, Engines) { check_shapes(); }

TEST(PReLU, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_shapes();
  }
}

// Enough for several threads: split by channels, by samples, by pixels.
TEST(PReLU, EnginesOnLargeTensors) {
  const Tolerance sums{1e-3, 1e-4};
  for (const Shape& shape : {Shape{2, 40, 30, 31}, Shape{3, 3, 90, 80}, Shape{1, 5, 99, 101}}) {
    check_engines(images("", shape), sums);
    check_engines(images(kShared, shape), sums);
  }
}

TEST(PReLU, KeepsNaN) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = prelu(""), .bottoms = {given({1, 1, 3}, {std::nan(""), -1, 2})}},
                 {.engine = engine});
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[0])) << engine;
    EXPECT_EQ(run.top(0)[1], -0.25) << engine;
  }
}

TEST(PReLU, AnInfiniteInputAboveZeroLeavesTheSlopesGradient) {
  for (const char* engine : {"reference", "native"}) {
    const double infinity = std::numeric_limits<double>::infinity();
    LayerRun run({.layer = prelu(""), .bottoms = {given({1, 1, 3}, {infinity, -1, 2})}},
                 {.engine = engine});
    run.forward();
    run.set_top_diff(0, {1, 3, 1});
    run.backward();
    EXPECT_THAT(run.gradient(0), testing::ElementsAre(-3)) << engine;
  }
}

TEST(PReLU, ReadsItsBottomAndRunsInPlace) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images(), {.engine = engine});
    EXPECT_TRUE(run.kernel().backward_reads().bottom_data);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
    EXPECT_EQ(run.kernel().in_place(), InPlace::overwrite);
  }
}

TEST(PReLU, AFrozenSlopeGetsNoGradient) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images(), {.engine = engine});
    run.layer().params()[0]->needs_gradient = false;
    run.forward();
    run.backward();
    EXPECT_THAT(run.gradient(0), Each(0)) << engine;
    EXPECT_NE(run.bottom_diff(0)[0], 0) << engine;
  }
}

TEST(PReLU, TakesSlopesOfPublishedFiles) {
  LayerRun run(images());
  std::vector<Tensor> published = {Tensor(Shape{1, 1, 1, 3}, DType::f32)};
  EXPECT_TRUE(run.layer().convert_weights(published));
  EXPECT_EQ(published[0].shape(), Shape{3});
  published = {Tensor(Shape{4}, DType::f32)};
  EXPECT_FALSE(run.layer().convert_weights(published));
}

TEST(PReLU, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(images(), {.engine = engine});
    run.param_values(0) = {1, 2, 3};
    run.reshape({given({1, 3, 1, 1}, {-1, -1, 1})});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(-1, -2, 1)) << engine;
    expect_error([&] { run.reshape({uniform({1, 4, 1, 1})}); }, {"1x4x1x1", "3 channels"});
  }
}

TEST(PReLU, Mistakes) {
  expect_error([] { LayerRun{images("", {5})}; }, {"axis 1", "shape 5", "channel_shared"});
}

}  // namespace
}  // namespace crema::test
