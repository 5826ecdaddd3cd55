#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

LayerCase drop(const std::string& ratio, const Shape& shape, Phase phase = Phase::train) {
  return {.layer = "layer { type: 'SpatialDropout' spatial_dropout_param { dropout_ratio: " +
                   ratio + " } }",
          .bottoms = {given(shape, std::vector<double>(static_cast<size_t>(shape.count()), 1))},
          .phase = phase};
}

TEST(SpatialDropout, DropsWholeChannelsAndScalesTheOthers) {
  LayerRun run(drop("0.25", {50, 40, 3, 2}));
  run.forward();
  int dropped = 0;
  for (size_t channel = 0; channel < 2000; ++channel) {
    const std::set<double> values(run.top(0).begin() + static_cast<int64_t>(6 * channel),
                                  run.top(0).begin() + static_cast<int64_t>(6 * channel + 6));
    ASSERT_EQ(values.size(), 1U);
    const double value = *values.begin();
    if (value == 0) {
      ++dropped;
    } else {
      EXPECT_NEAR(value, 1 / 0.75, 1e-6);
    }
  }
  EXPECT_NEAR(dropped, 500, 5 * 19);  // five standard deviations
  run.set_top_diff(0, std::vector<double>(12000, 1));
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), run.top(0));
}

TEST(SpatialDropout, EveryIterationDropsOthers) {
  LayerRun run(drop("0.5", {4, 50, 1, 1}));
  run.forward();
  const std::vector<double> first = run.top(0);
  run.forward();
  EXPECT_EQ(run.top(0), first) << "the same iteration and pass";
  run.state().iteration = 1;
  run.forward();
  EXPECT_NE(run.top(0), first);
}

TEST(SpatialDropout, TestPhaseLeavesTheValues) {
  LayerRun run(drop("0.5", {4, 50, 2, 1}, Phase::test), {.trains = false});
  run.forward();
  EXPECT_EQ(run.top(0), std::vector<double>(400, 1));
}

TEST(SpatialDropout, GradientsEnginesAndFormats) {
  check_gradients(
      {.layer = "layer { type: 'SpatialDropout' }", .bottoms = {uniform({3, 5, 2, 4})}});
  EXPECT_THAT(check_engines({.layer = "layer { type: 'SpatialDropout' }",
                             .bottoms = {uniform({3, 13, 5, 4})}}),
              testing::IsSupersetOf({"reference contiguous", "reference channels_last"}));
  check_engines({.layer = "layer { type: 'SpatialDropout' }", .bottoms = {uniform({3, 13})}});
  check_engines({.layer = "layer { type: 'SpatialDropout' }", .bottoms = {uniform({0, 13, 2})}});
}

TEST(SpatialDropout, WrongSettings) {
  for (const char* ratio : {"1", "-0.1", "nan"}) {
    expect_error([&] { LayerRun(drop(ratio, {2, 3})); }, {"dropout_ratio", ratio});
  }
  expect_error([] { LayerRun(drop("0.5", {6})); }, {"channels", "6"});
}

}  // namespace
}  // namespace crema::test
