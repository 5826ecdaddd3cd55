#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/channelwise.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::string scale(const std::string& settings) {
  return text("layer { type: 'Scale' scale_param { ", settings, " } }");
}

const char* const kFillers =
    " filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -1 max: 1 } ";

LayerCase learned(const std::string& settings, const Shape& shape = {2, 3, 5, 4}) {
  return {.layer = scale(text(settings, kFillers)), .bottoms = {uniform(shape)}};
}

LayerCase by_bottom(const std::string& settings, const Shape& shape, const Shape& by) {
  return {.layer = scale(settings), .bottoms = {uniform(shape), uniform(by)}};
}

const auto kEveryFormat =
    UnorderedElementsAre("reference contiguous", "native contiguous", "native channels_last",
                         "native blocked8", "native blocked16");
const auto kContiguousOnly = UnorderedElementsAre("reference contiguous", "native contiguous");

TEST(Scale, OneNumberAChannel) {
  LayerRun run({.layer = scale("bias_term: true"),
                .bottoms = {given({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                .params = {{2, -1}, {0, 10}}});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(2, 4, 7, 6, 10, 12, 3, 2));
  run.set_top_diff(0, {1, 1, 1, 1, 1, 1, 1, 2});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(2, 2, -1, -1, 2, 2, -1, -2));
  EXPECT_THAT(run.gradient(0), ElementsAre(14, 30));
  EXPECT_THAT(run.gradient(1), ElementsAre(4, 5));
}

TEST(Scale, StartsAsTheIdentity) {
  LayerRun run({.layer = scale("bias_term: true"), .bottoms = {uniform({2, 3, 4, 4})}});
  EXPECT_THAT(run.param(0), testing::Each(1));
  EXPECT_THAT(run.param(1), testing::Each(0));
}

TEST(Scale, ShapesOfTheParameters) {
  auto shape_for = [](const std::string& settings) {
    LayerRun run(learned(settings));
    return run.layer().params()[0]->shape();
  };
  EXPECT_EQ(shape_for(""), Shape({3}));
  EXPECT_EQ(shape_for("axis: 0 num_axes: 2"), Shape({2, 3}));
  EXPECT_EQ(shape_for("axis: 2 num_axes: -1"), Shape({5, 4}));
  EXPECT_EQ(shape_for("axis: -1"), Shape({4}));
  EXPECT_EQ(shape_for("axis: 0 num_axes: -1"), Shape({2, 3, 5, 4}));
  EXPECT_EQ(shape_for("num_axes: 0"), Shape{});
}

TEST(Scale, Gradients) {
  for (const char* settings : {"", "bias_term: true", "axis: 0 num_axes: 2 bias_term: true",
                               "axis: 2 num_axes: -1 bias_term: true", "num_axes: 0",
                               "axis: -1 bias_term: true", "axis: 0 num_axes: -1"}) {
    check_gradients(learned(settings));
  }
  check_gradients(by_bottom("axis: 1", {2, 3, 5, 4}, {3, 5}));
  check_gradients(by_bottom("axis: 0", {2, 3, 5, 4}, {2, 3, 5, 4}));
  check_gradients(by_bottom("axis: 1 bias_term: true", {2, 3, 5, 4}, {3}));
  check_gradients(by_bottom("axis: 0", {4, 3}, {}));
}

void check_shapes() {
  for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{3, 16, 3, 3}, Shape{2, 21, 2, 2}}) {
    for (const char* settings : {"", "bias_term: true", "num_axes: 0 bias_term: true",
                                 "axis: 0 num_axes: 2", "axis: 0 num_axes: 2 bias_term: true"}) {
      EXPECT_THAT(check_engines(learned(settings, shape)), kEveryFormat);
    }
    EXPECT_THAT(check_engines(by_bottom("axis: 1 bias_term: true", shape, {shape[1]})),
                kEveryFormat);
    EXPECT_THAT(check_engines(by_bottom("axis: 0", shape, {})), kEveryFormat);
    EXPECT_THAT(check_engines(by_bottom("axis: 0", shape, {shape[0], shape[1]})), kEveryFormat);
    for (const char* settings :
         {"axis: 2 num_axes: -1 bias_term: true", "axis: 0 num_axes: -1", "axis: -1"}) {
      EXPECT_THAT(check_engines(learned(settings, shape)), kContiguousOnly);
    }
    EXPECT_THAT(check_engines(by_bottom("axis: 0", shape, shape)), kContiguousOnly);
  }
  EXPECT_THAT(check_engines(learned("bias_term: true", {7, 30})), kContiguousOnly);
  EXPECT_THAT(check_engines(learned("axis: 0 bias_term: true", {13})), kContiguousOnly);
}

TEST(Scale, Engines) { check_shapes(); }

TEST(Scale, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_shapes();
  }
}

// Enough for several threads: split by channels, by samples, by pixels.
TEST(Scale, EnginesOnLargeTensors) {
  const Tolerance sums{1e-3, 1e-4};
  for (const Shape& shape : {Shape{2, 40, 30, 31}, Shape{3, 3, 90, 80}, Shape{1, 5, 99, 101}}) {
    check_engines(learned("bias_term: true", shape), sums);
    check_engines(learned("num_axes: 0 bias_term: true", shape), sums);
    check_engines(learned("axis: 0 num_axes: 2 bias_term: true", shape), sums);
    check_engines(by_bottom("axis: 0", shape, {shape[0], shape[1]}), sums);
  }
  check_engines(learned("axis: 0 num_axes: -1", {1, 40, 33, 35}), sums);
  check_engines(learned("bias_term: true", {4000, 20}), sums);
}

TEST(Scale, WithTwoBottomsReadsOneForTheGradientOfTheOther) {
  const LayerCase c{.layer = R"(layer { type: "Scale" })",
                    .bottoms = {uniform({2, 3, 4}), uniform({3})}};
  for (const char* engine : {"reference", "native"}) {
    for (const size_t wanted : {size_t{0}, size_t{1}}) {
      LayerRun run(c, {.engine = engine}), both(c, {.engine = engine});
      const std::vector<bool> propagate = run.want_only(wanted);
      const BackwardReads reads = run.kernel().backward_reads();
      EXPECT_FALSE(reads.bottom_data[wanted]);
      EXPECT_TRUE(reads.bottom_data[1 - wanted]);
      // What is not read is poisoned by the run.
      for (LayerRun* each : {&run, &both}) {
        each->forward();
        each->set_top_diff(0, std::vector<double>(24, 0.5));
        each->backward(each == &run ? propagate : std::vector<bool>{true, true});
      }
      EXPECT_EQ(run.bottom_diff(static_cast<int>(wanted)),
                both.bottom_diff(static_cast<int>(wanted)))
          << engine;
    }
  }
}

TEST(Scale, ReadsItsBottomForTheGradientOfTheScaleOnly) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(learned("bias_term: true"), {.engine = engine});
    EXPECT_TRUE(run.kernel().backward_reads().bottom_data);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
    // Frozen: the bias learns, but x may be gone (the run poisons it).
    run.layer().params()[0]->needs_gradient = false;
    EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
    run.forward();
    run.set_top_diff(0, std::vector<double>(120, 1));
    run.backward();
    EXPECT_THAT(run.gradient(1), testing::Each(40)) << engine;
    EXPECT_THAT(run.gradient(0), testing::Each(0)) << engine;
    // All frozen.
    run.layer().params()[1]->needs_gradient = false;
    run.clear_gradients();
    run.forward();
    run.backward();
    EXPECT_NEAR(run.bottom_diff(0)[0], run.param(0)[0], 1e-6) << engine;
    EXPECT_THAT(run.gradient(1), testing::Each(0)) << engine;
  }
}

TEST(Scale, TheSecondBottomsGradientIsOverwritten) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(
        {.layer = scale("axis: 0"), .bottoms = {given({2, 2}, {1, 2, 3, 4}), given({2}, {5, 6})}},
        {.engine = engine});
    for (int pass = 0; pass < 2; ++pass) {
      run.forward();
      run.set_top_diff(0, {1, 1, 1, 1});
      run.backward();
      EXPECT_THAT(run.bottom_diff(0), ElementsAre(5, 5, 6, 6)) << engine;
      EXPECT_THAT(run.bottom_diff(1), ElementsAre(3, 7)) << engine;
    }
    run.forward();
    run.backward({false, true});
    EXPECT_THAT(run.bottom_diff(1), ElementsAre(3, 7)) << engine;
    run.forward();
    run.backward({true, false});
    EXPECT_THAT(run.bottom_diff(0), ElementsAre(5, 5, 6, 6)) << engine;
  }
}

TEST(Scale, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(learned(""), {.engine = engine});
    run.param_values(0) = {1, 2, 3};
    run.reshape({given({1, 3, 1, 1}, {1, 1, 1})});
    run.forward();
    EXPECT_THAT(run.top(0), ElementsAre(1, 2, 3)) << engine;
    expect_error([&] { run.reshape({uniform({1, 4, 1, 1})}); }, {"scale of shape 3", "1x4x1x1"});
  }
}

TEST(Scale, ThreadsShareOneChannelOfAnySize) {
  const auto rows = [](int64_t elements) {
    const ChannelLayout layout = ChannelLayout::of_one(elements);
    EXPECT_EQ(layout.outer * layout.inner, elements);
    EXPECT_EQ(layout.channels, 1);
    return layout.outer;
  };
  EXPECT_EQ(rows(0), 1);
  EXPECT_EQ(rows(1), 1);
  EXPECT_EQ(rows(6400), 64);
  EXPECT_EQ(rows(2 * 67), 2);
  EXPECT_EQ(rows(3 * 99 * 101), 33);
  EXPECT_EQ(ChannelSplit(ChannelLayout::of_one(9 * 99 * 1001), 4).slices(), 4);
}

// Each slice has sums of its own, whose memory shows how many there are.
TEST(Scale, ThreadsShareTheNumberOfOneSample) {
  LayerRun run(learned("num_axes: 0", {1, 3, 199, 301}), {.engine = "native"});
  const int64_t slices = std::min<int64_t>(run.context().threads(), 3 * 199 * 301 / kElementGrain);
  EXPECT_EQ(run.kernel().bytes(), static_cast<size_t>(slices) * 2 * sizeof(double));
}

TEST(Scale, Mistakes) {
  expect_error([] { LayerRun{learned("num_axes: -2")}; }, {"num_axes -2", "-1"});
  expect_error([] { LayerRun{learned("num_axes: 2147483647")}; },
               {"axis 1", "num_axes 2147483647", "2x3x5x4"});
  expect_error([] { LayerRun{learned("axis: 3 num_axes: 2")}; },
               {"axis 3", "num_axes 2", "2x3x5x4"});
  expect_error([] { LayerRun{learned("axis: 4")}; }, {"4"});
  expect_error(
      [] {
        LayerRun{by_bottom("axis: 1", {2, 3, 5, 4}, {5})};
      },
      {"scale of shape 5", "axes 1", "2x3x5x4"});
  expect_error(
      [] {
        LayerRun{by_bottom("axis: 3", {2, 3, 5, 4}, {4, 2})};
      },
      {"scale of shape 4x2", "2x3x5x4"});
}

}  // namespace
}  // namespace crema::test
