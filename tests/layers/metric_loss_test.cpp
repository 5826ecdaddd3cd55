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

const char* const kWeights =
    "weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 3 class_weighting: 1.25 ";

std::string focal(const std::string& settings, const std::string& loss = "") {
  return "layer { type: 'FocalLoss' focal_loss_param { " + settings + " } loss_param { " + loss +
         " } }";
}

/// Targets of (items, 3) that sum to 1.
Input distributions() { return given({2, 3}, {0.5, 0.25, 0.25, 0, 1, 0}); }

TEST(FocalLoss, GradientsWithTheSettingsOfSoftmaxWithLoss) {
  for (const char* activation : {"", "activation: SIGMOID ", "activation: SIGMOID gamma: 0.5 "}) {
    for (const std::string& loss :
         {std::string(kWeights), kWeights + std::string("ignore_label: 1"),
          std::string("weight_by_label_freqs: true normalization: NONE"),
          std::string("label_smoothing: 0.2"), kWeights + std::string("label_smoothing: 0.2")}) {
      const std::string layer = focal(activation, loss);
      SCOPED_TRACE(layer);
      for (const LayerCase& c :
           {LayerCase{.layer = layer, .bottoms = {uniform({6, 3}, -2, 2), labels({6}, 3)}},
            LayerCase{.layer = layer,
            .bottoms = {uniform({2, 3, 2, 2}, -2, 2), labels({2, 2, 2}, 3)}}}) {
        check_gradients(c);
        check_engines(c);
      }
    }
    for (const char* loss : {"", "label_smoothing: 0.1", kWeights}) {
      const LayerCase c{.layer = focal(activation, loss),
                        .bottoms = {uniform({2, 3}, -2, 2), distributions()}};
      SCOPED_TRACE(c.layer);
      check_gradients(c);
      check_engines(c);
    }
  }
  const LayerCase background{
      .layer = focal("activation: SIGMOID background_label_id: 0 alpha: 0.75", "ignore_label: 9"),
      .bottoms = {uniform({3, 3}, -2, 2), given({3}, {0, 2, 9})}};
  check_gradients(background);
  check_engines(background);
}

/// What a run gives: the loss, then the gradient.
std::vector<double> results(const LayerCase& c) {
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  std::vector<double> all = run.top(0);
  run.backward();
  const std::vector<double> gradient = run.bottom_diff(0);
  all.insert(all.end(), gradient.begin(), gradient.end());
  return all;
}

TEST(FocalLoss, EqualsSoftmaxWithLossWithoutFocusWhateverLossParamSays) {
  const Input scores = uniform({6, 3}, -2, 2);
  for (const std::string& loss : {std::string(kWeights), std::string("weight_by_label_freqs: true"),
                                  kWeights + std::string("label_smoothing: 0.3 ignore_label: 2"),
                                  std::string("normalization: BATCH_SIZE label_smoothing: 0.1"),
                                  std::string("normalization: PRE_FIXED pre_fixed_normalizer: 2.5"),
                                  std::string("normalize: false ignore_label: 0")}) {
    SCOPED_TRACE(loss);
    const std::vector<Input> bottoms = {scores, labels({6}, 3)};
    expect_close(results({.layer = focal("gamma: 0 alpha: 1", loss), .bottoms = bottoms}),
                 results({.layer = "layer { type: 'SoftmaxWithLoss' loss_param { " + loss + " } }",
                          .bottoms = bottoms}),
                 {1e-12, 1e-12}, "loss and gradient");
  }
}

TEST(FocalLoss, ClassWeightsAreFactorsOfTheClasses) {
  const auto of = [&](const std::string& loss, double label) {
    return results(
        {.layer = focal("", loss), .bottoms = {given({1, 3}, {0.5, -1, 2}), given({1}, {label})}});
  };
  const double factors[] = {0.5, 3, 1.25};
  for (int c = 0; c < 3; ++c) {
    std::vector<double> expected = of("", c);
    for (double& value : expected) value *= factors[c];
    expect_close(of(kWeights, c), expected, {1e-12, 0}, text("class ", c));
  }
}

TEST(FocalLoss, SigmoidsOfCertainScoresAreFinite) {
  for (const char* gamma : {"gamma: 0", "gamma: 0.5", "gamma: 2"}) {
    for (const double score : {1e4, 700., 40., -40., -700., -1e4}) {
      LayerRun run({.layer = focal(text("activation: SIGMOID ", gamma)),
                    .bottoms = {given({1, 2}, {score, -score}), given({1}, {0})}});
      run.forward();
      EXPECT_TRUE(std::isfinite(run.top(0)[0])) << score;
      run.backward();
      for (const double d : run.bottom_diff(0)) EXPECT_TRUE(std::isfinite(d)) << d;
    }
  }
  // Far from right, the loss is the score and the gradient the factor.
  LayerRun run({.layer = focal("activation: SIGMOID"),
                .bottoms = {given({1, 2}, {-1000, 1000}), given({1}, {0})}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 0.25 * 1000 + 0.75 * 1000, 1e-3);
  run.backward();
  expect_close(run.bottom_diff(0), {-0.25, 0.75}, {1e-6, 0}, "gradient");
}

TEST(FocalLoss, SigmoidProbabilitiesAndBackground) {
  LayerRun run({.layer = focal("activation: SIGMOID background_label_id: 7"),
                .bottoms = {given({2, 2}, {0, 0, 0, 0}), given({2}, {1, 7})},
                .tops = 2});
  run.forward();
  EXPECT_EQ(run.top(1), std::vector<double>(4, 0.5));
  // Over two positions: one target of 1, three of 0.
  EXPECT_NEAR(run.top(0)[0], (0.25 + 3 * 0.75) * 0.25 * std::log(2) / 2, 1e-6);
  // Scores of one class have targets.
  LayerRun one({.layer = focal("activation: SIGMOID"),
                .bottoms = {given({2, 1}, {0, 0}), given({2, 1}, {0, 1})}});
  one.forward();
  EXPECT_NEAR(one.top(0)[0], 0.25 * std::log(2) / 2, 1e-6);
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

TEST(FocalLoss, ClassWeightsNeedNoSwitch) {
  const auto loss = [](const std::string& settings) {
    LayerRun run({.layer = focal("gamma: 2", settings),
                  .bottoms = {uniform({6, 3}, -2, 2), given({6}, {0, 1, 2, 0, 1, 2})}},
                 {.dtype = DType::f64});
    run.forward();
    return run.top(0)[0];
  };
  const std::string weights = "class_weighting: 0.5 class_weighting: 3 class_weighting: 1.25 ";
  EXPECT_EQ(loss(weights), loss("weight_by_label_freqs: true " + weights));
  EXPECT_NE(loss(weights), loss(""));
  EXPECT_EQ(loss("weight_by_label_freqs: false " + weights), loss(""));
}

TEST(FocalLoss, BackwardReadsTargetsButNoLabels) {
  LayerRun of_labels({.layer = focal(""), .bottoms = {uniform({2, 3}), labels({2}, 3)}});
  EXPECT_TRUE(of_labels.kernel().backward_reads().bottom_data[0]);
  EXPECT_FALSE(of_labels.kernel().backward_reads().bottom_data[1]);
  LayerRun of_targets({.layer = focal(""), .bottoms = {uniform({2, 3}), distributions()}});
  EXPECT_TRUE(of_targets.kernel().backward_reads().bottom_data[1]);
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
  refuses("loss_param { label_smoothing: 1 }", {"label_smoothing 1"});
  refuses("focal_loss_param { activation: SIGMOID alpha: 1.5 }", {"alpha 1.5", "1 - alpha"});
  refuses("focal_loss_param { background_label_id: 0 }", {"background_label_id 0", "SIGMOID"});
  refuses("loss_param { weight_by_label_freqs: true class_weighting: 2 }",
          {"1 numbers", "3 classes"});
  const auto refuses_targets = [](const std::string& settings, const char* name) {
    expect_error(
        [&] {
          LayerRun({.layer = "layer { type: 'FocalLoss' " + settings + " }",
                    .bottoms = {uniform({2, 3}), distributions()}});
        },
        {"bottom1", name});
  };
  refuses_targets("loss_param { ignore_label: 1 }", "ignore_label");
  refuses_targets("loss_param { weight_by_label_freqs: true }", "class_weighting");
  refuses_targets("focal_loss_param { activation: SIGMOID background_label_id: 0 }",
                  "background_label_id");
  LayerRun bad({.layer = focal("activation: SIGMOID"),
                .bottoms = {uniform({1, 3}), given({1, 3}, {0, 1, 1.5})}});
  expect_error([&] { bad.forward(); }, {"1.5", "no probability"});
  LayerRun run(
      {.layer = "layer { type: 'FocalLoss' }", .bottoms = {uniform({2, 3}), given({2}, {0, 3})}});
  expect_error([&] { run.forward(); }, {"label 3", "[0, 3)"});
}

LayerCase triplet(const std::string& settings, int64_t items = 6) {
  return {.layer = "layer { type: 'TripletLoss' triplet_loss_param { " + settings + " } }",
          .bottoms = {uniform({items, 4}), uniform({items, 4}), uniform({items, 4})}};
}

TEST(TripletLoss, Gradients) {
  for (const char* settings : {"", "margin: 0.1", "squared: false", "squared: false margin: 0.2",
                               "swap: true", "swap: true squared: false"}) {
    SCOPED_TRACE(settings);
    check_gradients(triplet(settings));
  }
}

TEST(TripletLoss, EveryEngine) {
  check_engines(triplet("margin: 0.5"));
  check_engines(triplet("squared: false", 100));
  check_engines(triplet("swap: true", 100));
  check_engines(triplet("swap: true squared: false", 100));
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

// The similar sample is nearer to the other one than the anchor is.
TEST(TripletLoss, SwapTakesTheSmallerDistance) {
  const std::vector<Input> points = {given({1, 1}, {0}), given({1, 1}, {1}), given({1, 1}, {2.5})};
  const auto layer = [](const char* swap) {
    return std::string("layer { type: 'TripletLoss' triplet_loss_param { squared: false ") + swap +
           " } }";
  };
  LayerRun plain({.layer = layer(""), .bottoms = points});
  plain.forward();
  EXPECT_EQ(plain.top(0)[0], 0);  // 1 - 2.5 + 1
  LayerRun swapped({.layer = layer("swap: true"), .bottoms = points});
  swapped.forward();
  EXPECT_EQ(swapped.top(0)[0], 0.5);  // 1 - 1.5 + 1
  swapped.backward();
  EXPECT_EQ(swapped.bottom_diff(0), std::vector<double>{-1});
  EXPECT_EQ(swapped.bottom_diff(1), std::vector<double>{2});
  EXPECT_EQ(swapped.bottom_diff(2), std::vector<double>{-1});
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
