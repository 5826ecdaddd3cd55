#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string dice(const std::string& settings = "", const std::string& type = "DiceLoss") {
  return text("layer { type: '", type, "' bottom: 'p' bottom: 't' dice_loss_param { ", settings,
              " } }");
}

/// Two samples of two channels of two pixels.
const std::vector<Input> kMasks = {given({2, 2, 2}, {0.5, 1, 0, 0.25, 1, 1, 0, 0}),
                                   given({2, 2, 2}, {1, 1, 0, 1, 0, 1, 0, 0})};

TEST(DiceLoss, OfTheWholeBatch) {
  for (const char* type : {"DiceLoss", "DiceCoefLoss"}) {
    LayerRun run({.layer = dice("", type), .bottoms = kMasks});
    run.forward();
    // A = 0.5 + 1 + 0.25 + 1, B = 3.75 + 4.
    const double a = 2.75, b = 7.75;
    EXPECT_NEAR(run.top(0)[0], 1 - (2 * a + 1) / (b + 1), 1e-6);
    run.backward();
    const double without = (2 * a + 1) / (b + 1) / (b + 1), with = without - 2 / (b + 1);
    expect_close(run.bottom_diff(0), {with, with, without, with, without, with, without, without},
                 {1e-6, 0}, "dp");
    EXPECT_FALSE(run.layer().can_propagate(1));
  }
}

TEST(DiceLoss, OfEachChannel) {
  LayerRun run({.layer = dice("per_channel: true smooth: 0.5"), .bottoms = kMasks});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 1 - (3.5 / 4 + 1. / 1.75 + 2.5 / 3.5 + 1) / 4, 1e-6);
}

TEST(DiceLoss, SquaredAreas) {
  LayerRun run({.layer = dice("squared: true smooth: 0"), .bottoms = kMasks});
  run.forward();
  // B = 0.25 + 1 + 0.0625 + 1 + 1 + 4.
  const double a = 2.75, b = 7.3125;
  EXPECT_NEAR(run.top(0)[0], 1 - 2 * a / b, 1e-6);
  run.backward();
  const std::vector<double>&p = kMasks[0].values, &t = kMasks[1].values;
  std::vector<double> expected;
  for (size_t i = 0; i < p.size(); ++i) expected.push_back(4 * a * p[i] / b / b - 2 * t[i] / b);
  expect_close(run.bottom_diff(0), expected, {1e-6, 0}, "dp");
}

TEST(DiceLoss, NothingPredictedAndNothingThere) {
  for (const char* settings :
       {"smooth: 0", "smooth: 0 per_channel: true", "smooth: 0 squared: true"}) {
    LayerRun run({.layer = dice(settings),
                  .bottoms = {given({1, 2, 2}, {0, 0, 0, 0}), given({1, 2, 2}, {0, 0, 0, 0})}});
    run.forward();
    EXPECT_EQ(run.top(0)[0], 0);
    run.backward();
    EXPECT_EQ(run.bottom_diff(0), std::vector<double>(4, 0));
  }
}

TEST(DiceLoss, Gradients) {
  for (const char* settings : {"", "smooth: 0", "per_channel: true", "per_channel: true smooth: 0",
                               "per_channel: true smooth: 10", "squared: true",
                               "squared: true per_channel: true smooth: 0"}) {
    for (const Shape& shape : {Shape{3, 2, 4}, Shape{2, 1}, Shape{2, 3, 3, 5}}) {
      const LayerCase c{.layer = dice(settings),
                        .bottoms = {uniform(shape, 0.1, 0.9), labels(shape, 2)}};
      check_gradients(c);
      check_engines(c);
    }
  }
  check_engines({.layer = dice(), .bottoms = {uniform({2, 70001}, 0, 1), labels({2, 70001}, 2)}});
}

TEST(DiceLoss, EmptyBatch) {
  LayerRun run({.layer = dice(), .bottoms = {given({0, 2}, {}), given({0, 2}, {})}});
  run.forward();
  EXPECT_EQ(run.top(0)[0], 0);
  run.backward();
}

TEST(DiceLoss, Errors) {
  expect_error([] { LayerRun({.layer = dice("smooth: -1"), .bottoms = kMasks}); }, {"smooth -1"});
  expect_error(
      [] {
        LayerRun({.layer = dice(), .bottoms = {uniform({2, 3}), uniform({2, 4})}});
      },
      {"2x3", "2x4"});
  expect_error(
      [] {
        LayerRun({.layer = dice("per_channel: true"), .bottoms = {uniform({2}), uniform({2})}});
      },
      {"per_channel", "no channels"});
}

}  // namespace
}  // namespace crema::test
