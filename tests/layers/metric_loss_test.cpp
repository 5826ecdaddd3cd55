// FocalLoss and TripletLoss. Values: the cases of tests/golden/torch.
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

TEST(FocalLoss, Gradients) {
  for (const char* settings : {"", "gamma: 0", "gamma: 0.5 alpha: 2", "gamma: 5"}) {
    const std::string layer =
        std::string("layer { type: 'FocalLoss' focal_loss_param { ") + settings + " } }";
    SCOPED_TRACE(layer);
    check_gradients({.layer = layer, .bottoms = {uniform({6, 5}, -2, 2), labels({6}, 5)}});
    check_gradients({.layer = layer, .bottoms = {uniform({2, 3, 2, 2}), labels({2, 2, 2}, 3)}});
  }
  check_gradients(
      {.layer = "layer { type: 'FocalLoss' loss_param { ignore_label: 1 normalization: FULL } }",
       .bottoms = {uniform({6, 3}), labels({6}, 3)}});
}

TEST(FocalLoss, EveryEngine) {
  check_engines({.layer = "layer { type: 'FocalLoss' }",
                 .bottoms = {uniform({40, 21}, -3, 3), labels({40}, 21)}});
  check_engines({.layer = "layer { type: 'FocalLoss' softmax_param { axis: -1 } }",
                 .bottoms = {uniform({4, 7, 5}), labels({4, 7}, 5)}});
}

TEST(FocalLoss, WithoutFocusItIsTheSoftmaxLoss) {
  const std::vector<Input> bottoms = {uniform({6, 5}, -2, 2), labels({6}, 5)};
  LayerRun focal({.layer = "layer { type: 'FocalLoss' focal_loss_param { gamma: 0 alpha: 1 } }",
                  .bottoms = bottoms},
                 {.dtype = DType::f64});
  LayerRun softmax({.layer = "layer { type: 'SoftmaxWithLoss' }", .bottoms = bottoms},
                   {.dtype = DType::f64});
  focal.forward();
  softmax.forward();
  EXPECT_NEAR(focal.top(0)[0], softmax.top(0)[0], 1e-12);
}

TEST(FocalLoss, CertainSamplesHaveFiniteGradients) {
  LayerRun run({.layer = "layer { type: 'FocalLoss' focal_loss_param { gamma: 0.5 } }",
                .bottoms = {given({2, 2}, {200, -200, -200, 200}), given({2}, {0, 0})}});
  run.forward();
  EXPECT_TRUE(std::isfinite(run.top(0)[0]));
  run.backward();
  for (const double d : run.bottom_diff(0)) EXPECT_TRUE(std::isfinite(d)) << d;
}

TEST(FocalLoss, WrongSettingsAndLabels) {
  const auto refuses = [](const std::string& settings,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun({.layer = "layer { type: 'FocalLoss' " + settings + " }",
                    .bottoms = {uniform({2, 3}), labels({2}, 3)}});
        },
        parts);
  };
  refuses("focal_loss_param { type: LINEAR }", {"LINEAR", "ORIGIN"});
  refuses("focal_loss_param { gamma: -1 }", {"gamma -1"});
  refuses("focal_loss_param { alpha: 0 }", {"alpha 0"});
  refuses("loss_param { label_smoothing: 0.1 }", {"label_smoothing"});
  LayerRun run(
      {.layer = "layer { type: 'FocalLoss' }", .bottoms = {uniform({2, 3}), given({2}, {0, 3})}});
  expect_error([&] { run.forward(); }, {"label 3", "[0, 3)"});
}

LayerCase triplet(const std::string& settings, int64_t items = 6) {
  return {.layer = "layer { type: 'TripletLoss' triplet_loss_param { " + settings + " } }",
          .bottoms = {uniform({items, 4}), uniform({items, 4}), uniform({items, 4})}};
}

TEST(TripletLoss, Gradients) {
  for (const char* settings : {"", "margin: 0.1", "squared: false", "squared: false margin: 0.2"}) {
    SCOPED_TRACE(settings);
    check_gradients(triplet(settings));
  }
}

TEST(TripletLoss, EveryEngine) {
  check_engines(triplet("margin: 0.5"));
  check_engines(triplet("squared: false", 100));
  check_engines(triplet("", 0));
}

TEST(TripletLoss, TripletsThatAreRightCostNothing) {
  LayerRun run({.layer = "layer { type: 'TripletLoss' triplet_loss_param { margin: 1 } }",
                .bottoms = {given({2, 1}, {0, 0}), given({2, 1}, {1, 1}), given({2, 1}, {3, 1})}});
  run.forward();
  EXPECT_EQ(run.top(0)[0], 0.25);  // (0 + 1) / 4
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), (std::vector<double>{0, 0}));
  EXPECT_EQ(run.bottom_diff(1), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(run.bottom_diff(2), (std::vector<double>{0, -0.5}));
}

TEST(TripletLoss, EqualPointsHaveFiniteGradients) {
  LayerRun run({.layer = "layer { type: 'TripletLoss' triplet_loss_param { squared: false } }",
                .bottoms = {given({1, 2}, {1, 2}), given({1, 2}, {1, 2}), given({1, 2}, {1, 3})}});
  run.forward();
  run.backward();
  for (int i = 0; i < 3; ++i) {
    for (const double d : run.bottom_diff(i)) EXPECT_TRUE(std::isfinite(d));
  }
}

TEST(TripletLoss, WrongShapesAndSettings) {
  expect_error([] { LayerRun(triplet("margin: -1")); }, {"margin -1"});
  expect_error(
      [] {
        LayerRun({.layer = "layer { type: 'TripletLoss' }",
                  .bottoms = {uniform({2, 3}), uniform({2, 3}), uniform({2, 4})}});
      },
      {"bottom2", "2x4"});
}

}  // namespace
}  // namespace crema::test
