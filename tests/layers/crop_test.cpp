#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

LayerCase crop(const std::string& settings, const Shape& shape, const Shape& sizes) {
  return {.layer = text("layer { type: 'Crop' crop_param { ", settings, " } }"),
          .bottoms = {uniform(shape), uniform(sizes)}};
}

TEST(Crop, TakesAWindow) {
  LayerCase c = crop("axis: 0 offset: 1 offset: 2", {3, 4}, {2, 2});
  c.bottoms[0] = given({3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(12, 13, 22, 23));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4));
}

TEST(Crop, OneOffsetIsForAllAxesAndNoneIsZero) {
  LayerCase c = crop("axis: -2 offset: 1", {1, 3, 3}, {7, 2, 1});
  c.bottoms[0] = given({1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  LayerRun one(c);
  one.forward();
  EXPECT_EQ(one.top_blob(0).shape(), (Shape{1, 2, 1}));
  EXPECT_THAT(one.top(0), ElementsAre(4, 7));
  c.layer = "layer { type: 'Crop' crop_param { axis: 1 } }";
  LayerRun none(c);
  none.forward();
  EXPECT_THAT(none.top(0), ElementsAre(0, 3));
}

TEST(Crop, Gradients) {
  check_gradients(crop("offset: 1 offset: 2", {2, 3, 4, 5}, {1, 1, 2, 3}));
  check_gradients(crop("axis: 1 offset: 1", {2, 3, 4}, {9, 1, 2}));
  check_gradients(crop("axis: 0", {3, 4}, {2, 4}));
  check_gradients(crop("axis: 3 offset: 4", {2, 2, 3, 5}, {1, 1, 1, 1}));
  check_gradients(crop("axis: 1 offset: 1 offset: 0 offset: 0", {2, 3, 4, 2}, {1, 2, 4, 2}));
  check_gradients(crop("", {2, 2, 3, 3}, {2, 2, 3, 3}));
  check_gradients(crop("axis: 0 offset: 1", {5}, {3}));
  check_gradients(crop("offset: 1", {1, 2, 3, 4, 5}, {1, 1, 2, 3, 4}));
}

TEST(Crop, EveryFormat) {
  const LayerCase images = crop("offset: 1 offset: 2", {2, 21, 6, 7}, {1, 3, 4, 5});
  EXPECT_THAT(check_engines(images),
              IsSupersetOf({"reference contiguous", "reference channels_last", "reference blocked8",
                            "reference blocked16"}));
  check_engines(
      crop("axis: 0 offset: 1 offset: 0 offset: 0 offset: 0", {3, 5, 4, 4}, {2, 5, 4, 4}));
  // Channels are cut in formats without blocks only.
  const auto channels = check_engines(crop("axis: 1", {2, 16, 5, 5}, {1, 8, 5, 3}));
  EXPECT_THAT(channels, Contains("reference channels_last"));
  EXPECT_THAT(channels, Not(Contains(HasSubstr("blocked"))));
}

// Rows of more than one thread's share.
TEST(Crop, LongRows) {
  check_engines(crop("axis: 0 offset: 3", {100003}, {99991}));
  check_engines(crop("axis: 0 offset: 1 offset: 0 offset: 0", {3, 300, 301}, {2, 300, 301}));
}

TEST(Crop, EmptyTopsAndBatches) {
  LayerRun none(crop("offset: 4 offset: 0", {2, 3, 4, 5}, {2, 3, 0, 5}));
  none.forward();
  EXPECT_EQ(none.top_blob(0).shape(), (Shape{2, 3, 0, 5}));
  none.backward();
  EXPECT_THAT(none.bottom_diff(0), testing::Each(0));
  LayerRun batch(crop("offset: 1", {0, 3, 4, 5}, {0, 3, 2, 2}));
  batch.forward();
  batch.backward();
  EXPECT_EQ(batch.top_blob(0).shape(), (Shape{0, 3, 2, 2}));
}

TEST(Crop, FollowsNewShapes) {
  LayerRun run(crop("offset: 1", {1, 1, 3, 3}, {1, 1, 2, 2}));
  run.reshape({given({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), uniform({1, 1, 1, 2})});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(5, 6));
}

TEST(Crop, OnlyTheShapeOfTheSecondBottomIsRead) {
  LayerRun run(crop("", {2, 3, 4, 5}, {2, 3, 2, 2}));
  EXPECT_TRUE(run.layer().can_propagate(0));
  EXPECT_FALSE(run.layer().can_propagate(1));
  EXPECT_FALSE(run.layer().is_exact_bottom(1));
  EXPECT_FALSE(run.kernel().backward_reads().bottom_data);
}

// An image that gives the size is not converted for it.
TEST(Crop, TakesTheSizesInAnyLayout) {
  Context context;
  const Net net(net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 8 dim: 9 dim: 9 } } }
      layer { name: "image" type: "Input" top: "image"
              input_param { shape { dim: 1 dim: 3 dim: 5 dim: 5 } } }
      layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
              convolution_param { num_output: 8 kernel_size: 1 } }
      layer { name: "act" type: "Sigmoid" bottom: "conv" top: "act" }
      layer { name: "crop" type: "Crop" bottom: "act" bottom: "image" top: "crop" }
      layer { name: "end" type: "Sigmoid" bottom: "crop" top: "end" })"),
                context, {.activations = DType::bf16});
  for (const NetStep& step : net.steps()) {
    if (step.layer >= 0) continue;
    EXPECT_THAT(step.name, Not(HasSubstr("image")));
  }
}

TEST(Crop, Errors) {
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(c); }, words);
  };
  refuses(crop("offset: 3", {2, 3, 4, 5}, {2, 3, 2, 2}),
          {"axis 2", "'bottom0' (2x3x4x5)", "2, the size of 'bottom1' (2x3x2x2)", "offset 3"});
  refuses(crop("offset: 9 offset: 0", {2, 3, 4, 5}, {2, 3, 0, 5}), {"axis 2", "offset 9"});
  refuses(crop("", {2, 3, 4, 5}, {2, 3, 5, 5}), {"4 places", "takes 5", "offset 0"});
  refuses(crop("offset: 1 offset: 1 offset: 1", {2, 3, 4, 5}, {2, 3, 2, 2}),
          {"3 values of offset", "2 axes", "one each"});
  refuses(crop("", {2, 3, 4, 5}, {2, 3, 4}), {"'bottom1' (2x3x4)", "fewer axes", "2x3x4x5"});
  refuses(crop("axis: 4", {2, 3, 4, 5}, {2, 3, 4, 5}), {"4", "2x3x4x5"});
}

}  // namespace
}  // namespace crema::test
