#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

std::string concat_layer(const std::string& settings) {
  return text("layer { type: 'Concat' concat_param { ", settings, " } }");
}

LayerCase channels(const std::vector<int64_t>& counts, const std::string& settings = "") {
  LayerCase c{.layer = concat_layer(settings)};
  for (const int64_t count : counts) c.bottoms.push_back(uniform({2, count, 3, 5}));
  return c;
}

TEST(Concat, JoinsRows) {
  LayerRun run(
      {.layer = concat_layer(""), .bottoms = {given({2, 2}, {1, 2, 3, 4}), given({2, 1}, {5, 6})}});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 5, 3, 4, 6));
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(3, 6));
}

TEST(Concat, AlongTheBatch) {
  LayerRun run({.layer = concat_layer("axis: 0"),
                .bottoms = {given({1, 2}, {1, 2}), given({2, 2}, {3, 4, 5, 6})}});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{3, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Concat, NegativeAxisAndOldName) {
  LayerRun last(
      {.layer = concat_layer("axis: -1"), .bottoms = {uniform({2, 3, 4}), uniform({2, 3, 2})}});
  EXPECT_EQ(last.top_blob(0).shape(), (Shape{2, 3, 6}));
  LayerRun old(
      {.layer = concat_layer("concat_dim: 0"), .bottoms = {uniform({2, 3}), uniform({1, 3})}});
  EXPECT_EQ(old.top_blob(0).shape(), (Shape{3, 3}));
}

TEST(Concat, OneBottomIsAnAlias) {
  LayerRun run(channels({3}));
  EXPECT_EQ(run.kernel().in_place(), InPlace::alias);
  check_engines(channels({16}));
}

TEST(Concat, Gradients) {
  check_gradients(channels({2, 1, 3}));
  check_gradients({.layer = concat_layer("axis: 2"),
                   .bottoms = {uniform({2, 3, 2, 2}), uniform({2, 3, 1, 2})}});
}

TEST(Concat, PropagatesOnlyWhereAsked) {
  LayerRun run(
      {.layer = concat_layer(""), .bottoms = {given({2, 2}, {1, 2, 3, 4}), given({2, 1}, {5, 6})}});
  run.forward();
  run.set_top_diff(0, {1, 2, 3, 4, 5, 6});
  run.backward({false, true});
  EXPECT_THAT(run.bottom_diff(1), ElementsAre(3, 6));
}

TEST(Concat, ChannelsInEveryFormat) {
  const auto full = check_engines(channels({16, 32, 16}));
  EXPECT_THAT(full, IsSupersetOf({"reference contiguous", "reference channels_last",
                                  "reference blocked8", "reference blocked16"}));
  // Blocks can be joined only where none has padding.
  const auto eights = check_engines(channels({8, 16}));
  EXPECT_THAT(eights, Contains("reference blocked8"));
  EXPECT_THAT(eights, Not(Contains("reference blocked16")));
  EXPECT_THAT(check_engines(channels({8, 3})), Not(Contains(HasSubstr("blocked"))));
}

TEST(Concat, OtherAxesInEveryFormat) {
  for (int axis : {0, 2, 3}) {
    Shape shape{2, 11, 3, 5};
    LayerCase c{.layer = concat_layer(text("axis: ", axis)), .bottoms = {uniform(shape)}};
    shape.set(axis, 4);
    c.bottoms.push_back(uniform(shape));
    EXPECT_THAT(check_engines(c), IsSupersetOf({"reference contiguous", "reference channels_last",
                                                "reference blocked8", "reference blocked16"}));
  }
}

// Rows long enough to be shared out among threads.
TEST(Concat, LargeRows) {
  check_engines(
      {.layer = concat_layer(""), .bottoms = {uniform({1, 16, 64, 65}), uniform({1, 32, 64, 65})}});
}

TEST(Concat, FollowsNewShapes) {
  LayerRun run(channels({2, 1}));
  run.reshape({uniform({1, 4, 2}), uniform({1, 5, 2})});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 9, 2}));
  EXPECT_EQ(run.top(0)[8], values_of(run.bottom_blob(1).data)[0]);
}

TEST(Concat, Errors) {
  expect_error(
      [] {
        LayerRun run({.layer = R"(layer { type: "Concat" bottom: "left" bottom: "right" })",
                      .bottoms = {uniform({2, 3, 4}), uniform({2, 3, 5})}});
      },
      {"axis 1", "'left' is 2x3x4", "'right' is 2x3x5"});
  expect_error([] { LayerRun run(channels({1, 1}, "axis: 4")); }, {"4", "2x1x3x5"});
  expect_error(
      [] {
        LayerRun run(channels({1, 1}, "axis: 1 concat_dim: 1"));
      },
      {"axis", "concat_dim"});
}

}  // namespace
}  // namespace crema::test
