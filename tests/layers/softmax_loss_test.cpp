#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string loss(const std::string& settings = "") {
  return text("layer { type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' ", settings, " }");
}

/// Two classes at equal odds: each position that counts loses log(2).
LayerCase even_odds(const std::string& settings, const std::vector<double>& label_values) {
  const auto n = int64_t(label_values.size());
  return {.layer = loss(settings),
          .bottoms = {given({n, 2}, std::vector<double>(size_t(2 * n), 3.0)),
                      given({n}, label_values)}};
}

double loss_of(const LayerCase& c) {
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  return run.top(0).at(0);
}

TEST(SoftmaxWithLoss, Value) {
  LayerRun run({.layer = loss(), .bottoms = {given({1, 3}, {1, 2, 3}), given({1}, {1})}});
  run.forward();
  const double sum = std::exp(1) + std::exp(2) + std::exp(3);
  expect_close(run.top(0), {std::log(sum) - 2}, {1e-6, 0}, "loss");
  EXPECT_EQ(run.top_blob(0).shape().rank(), 0);
  run.backward();
  expect_close(run.bottom_diff(0), {std::exp(1) / sum, std::exp(2) / sum - 1, std::exp(3) / sum},
               {1e-6, 0}, "diff");
}

TEST(SoftmaxWithLoss, Normalization) {
  const std::vector<double> values = {0, 1, 1, 9};
  const double log2 = std::log(2);
  const auto with = [&](const std::string& settings) {
    return loss_of(even_odds(text("loss_param { ignore_label: 9 ", settings, " }"), values));
  };
  EXPECT_NEAR(with(""), log2, 1e-12);
  EXPECT_NEAR(with("normalization: VALID"), log2, 1e-12);
  EXPECT_NEAR(with("normalization: FULL"), log2 * 3 / 4, 1e-12);
  EXPECT_NEAR(with("normalization: BATCH_SIZE"), log2 * 3 / 4, 1e-12);
  EXPECT_NEAR(with("normalization: NONE"), log2 * 3, 1e-12);
  EXPECT_NEAR(with("normalization: PRE_FIXED pre_fixed_normalizer: 6"), log2 / 2, 1e-12);
  EXPECT_NEAR(with("normalization: PRE_FIXED pre_fixed_normalizer: 0.25"), log2 * 12, 1e-12);
  EXPECT_NEAR(with("normalize: true"), log2, 1e-12);
  EXPECT_NEAR(with("normalize: false"), log2 * 3 / 4, 1e-12);
  EXPECT_NEAR(with("normalize: false normalization: VALID"), log2, 1e-12);
}

TEST(SoftmaxWithLoss, FullCountsPositionsAndBatchSizeItems) {
  const auto with = [](const std::string& mode) {
    return loss_of({.layer = loss(text("loss_param { normalization: ", mode, " }")),
                    .bottoms = {given({2, 2, 1, 3}, std::vector<double>(12, 1.0)),
                                given({2, 1, 3}, std::vector<double>(6, 0.0))}});
  };
  EXPECT_NEAR(with("FULL"), std::log(2), 1e-12);
  EXPECT_NEAR(with("BATCH_SIZE"), 3 * std::log(2), 1e-12);
}

TEST(SoftmaxWithLoss, AllIgnoredIsZero) {
  LayerRun run(even_odds("loss_param { ignore_label: 255 }", {255, 255}));
  run.forward();
  EXPECT_EQ(run.top(0)[0], 0);
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), testing::Each(0));
}

// A probability that underflows has a large loss, not one cut off at log(FLT_MIN).
TEST(SoftmaxWithLoss, ImprobableLabels) {
  LayerRun run({.layer = loss(), .bottoms = {given({1, 2}, {0, 500}), given({1}, {0})}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 500, 1e-3);
  run.backward();
  expect_close(run.bottom_diff(0), {-1, 1}, {1e-6, 0}, "diff");
}

TEST(SoftmaxWithLoss, NaNIsNotHidden) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LayerRun run({.layer = loss(), .bottoms = {given({1, 2}, {nan, 1}), given({1}, {1})}});
  run.forward();
  EXPECT_TRUE(std::isnan(run.top(0)[0]));
}

TEST(SoftmaxWithLoss, SecondTopIsTheProbability) {
  LayerCase c{.layer = loss(), .bottoms = {given({1, 2}, {0, 0}), given({1}, {1})}, .tops = 2};
  for (const bool trains : {true, false}) {
    LayerRun run(c, {.trains = trains});
    run.forward();
    expect_close(run.top(0), {std::log(2)}, {1e-6, 0}, "loss");
    expect_close(run.top(1), {0.5, 0.5}, {1e-6, 0}, "probability");
  }
  c.bottoms = {uniform({3, 4, 2}, -2, 2), labels({3, 2}, 4)};
  check_engines(c);
}

TEST(SoftmaxWithLoss, LabelSmoothing) {
  const LayerCase plain{.layer = loss(), .bottoms = {given({1, 3}, {1, 2, 4}), given({1}, {1})}};
  LayerCase smooth = plain;
  smooth.layer = loss("loss_param { label_smoothing: 0.3 }");
  // 0.7 of the loss at the label, and 0.1 of that at every class.
  const double log_sum = std::log(std::exp(1) + std::exp(2) + std::exp(4));
  const double expected = 0.7 * (log_sum - 2) + 0.1 * (3 * log_sum - 7);
  EXPECT_NEAR(loss_of(smooth), expected, 1e-7);
}

TEST(SoftmaxWithLoss, Gradients) {
  const std::vector<Input> rows = {uniform({6, 5}, -2, 2), labels({6}, 5)};
  for (const char* settings : {"", "loss_weight: 0.3", "loss_param { ignore_label: 1 }",
                               "loss_param { normalization: NONE }",
                               "loss_param { label_smoothing: 0.2 ignore_label: 2 }"}) {
    check_gradients({.layer = loss(settings), .bottoms = rows});
    check_engines({.layer = loss(settings), .bottoms = rows});
  }
  const LayerCase spatial{.layer = loss("loss_param { ignore_label: 0 }"),
                          .bottoms = {uniform({2, 4, 3, 3}, -2, 2), labels({2, 1, 3, 3}, 4)}};
  check_gradients(spatial);
  check_engines(spatial);
  check_gradients({.layer = loss("softmax_param { axis: -1 }"),
                   .bottoms = {uniform({2, 3, 4}, -2, 2), labels({2, 3}, 4)}});
}

TEST(SoftmaxWithLoss, NoGradientForLabels) {
  LayerRun run({.layer = loss(), .bottoms = {uniform({2, 3}), labels({2}, 3)}});
  EXPECT_TRUE(run.layer().can_propagate(0));
  EXPECT_FALSE(run.layer().can_propagate(1));
  EXPECT_FALSE(run.layer().allow_force_backward(1));
}

// The digits' labels 5 to 9 with num_output: 5 were read beyond the scores once.
TEST(SoftmaxWithLoss, LabelOutOfRange) {
  std::vector<double> values(20, 0.0);
  values[12] = 7;
  LayerRun run({.layer = loss(), .bottoms = {uniform({20, 5}), given({20}, values)}});
  expect_error([&] { run.forward(); },
               {"label 7 at position 12 of the batch is outside [0, 5)", "num_output"});
  for (const double bad : {-1.0, 5.0, 1.5, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    run.bottom_values(1)[12] = bad;
    expect_error([&] { run.forward(); }, {"position 12", "[0, 5)"});
  }
  run.bottom_values(1)[12] = 1.5;
  expect_error([&] { run.forward(); }, {"label 1.5", "no whole number", "fix the labels"});
}

TEST(SoftmaxWithLoss, LabelOutOfRangeInAnImage) {
  LayerRun run(
      {.layer = loss(), .bottoms = {uniform({2, 4, 1, 3}), given({2, 3}, {0, 1, 2, 3, 4, 0})}});
  expect_error([&] { run.forward(); }, {"label 4 at position 1 of item 1 of the batch", "[0, 4)"});
}

// Labels of the shape of the scores are probabilities. The loss is that of PyTorch's cross_entropy:
// the sum of -t log(softmax(x)).
TEST(SoftmaxWithLoss, ProbabilitiesAsLabels) {
  const std::vector<double> t{0.5, 0.25, 0.25, 0, 1, 0};
  LayerRun run({.layer = loss(), .bottoms = {given({2, 3}, {1, 2, 3, 0, 0, 0}), given({2, 3}, t)}},
               {.dtype = DType::f64});
  run.forward();
  const double sum = std::exp(1) + std::exp(2) + std::exp(3);
  expect_close(run.top(0), {(std::log(sum) - 1.75 + std::log(3)) / 2}, {1e-12, 0}, "loss");
  run.backward();
  expect_close(run.bottom_diff(0),
               {(std::exp(1) / sum - 0.5) / 2, (std::exp(2) / sum - 0.25) / 2,
                (std::exp(3) / sum - 0.25) / 2, 1.0 / 6, (1.0 / 3 - 1) / 2, 1.0 / 6},
               {1e-12, 0}, "diff");
}

TEST(SoftmaxWithLoss, OneHotProbabilitiesAreLabels) {
  for (const char* settings :
       {"", "loss_param { label_smoothing: 0.1 normalization: BATCH_SIZE }"}) {
    const Input scores = uniform({2, 3, 2}, -2, 2);
    LayerRun hard({.layer = loss(settings), .bottoms = {scores, given({2, 2}, {0, 2, 1, 1})}},
                  {.dtype = DType::f64});
    LayerRun soft({.layer = loss(settings),
                   .bottoms = {scores, given({2, 3, 2}, {1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0})}},
                  {.dtype = DType::f64});
    for (LayerRun* run : {&hard, &soft}) {
      run->forward();
      run->backward();
    }
    EXPECT_NEAR(soft.top(0).at(0), hard.top(0).at(0), 1e-12);
    for (size_t i = 0; i < 12; ++i)
      EXPECT_NEAR(soft.bottom_diff(0).at(i), hard.bottom_diff(0).at(i), 1e-12);
  }
}

// Nets mask classes by scores of -inf.
TEST(SoftmaxWithLoss, AnImpossibleClassOfTargetZeroCostsNothing) {
  LayerRun run({.layer = loss(),
                .bottoms = {given({1, 3}, {1, -std::numeric_limits<double>::infinity(), 0}),
                            given({1, 3}, {0.5, 0, 0.5})}},
               {.dtype = DType::f64});
  run.forward();
  EXPECT_NEAR(run.top(0).at(0), std::log(std::exp(1) + 1) - 0.5, 1e-12);
}

TEST(SoftmaxWithLoss, GradientsWithProbabilities) {
  const std::vector<double> t{0.5, 0.25, 0.25, 0, 1, 0, 0.1, 0.2, 0.7, 0.3, 0.3, 0.4};
  for (const char* settings : {"", "loss_weight: 0.3 loss_param { label_smoothing: 0.2 }"}) {
    const LayerCase c{.layer = loss(settings),
                      .bottoms = {uniform({4, 3}, -2, 2), given({4, 3}, t)}};
    check_gradients(c);
    check_engines(c);
  }
}

TEST(SoftmaxWithLoss, LabelsThatAreNoProbabilities) {
  const auto fails = [](std::vector<double> t, std::initializer_list<std::string_view> words) {
    LayerRun run({.layer = loss(), .bottoms = {uniform({1, 3}), given({1, 3}, std::move(t))}});
    expect_error([&] { run.forward(); }, words);
  };
  fails({0.5, 0.25, 0.5}, {"position 0", "sum to 1.25"});
  fails({0.5, -0.25, 0.75}, {"-0.25", "class 1", "no probability"});
  fails({0.5, std::nan(""), 0.5}, {"class 1", "no probability"});

  std::vector<double> many(3 * 2 * 100, 0.5);
  many[2 * 200 + 100 + 67] = 0.75;  // sample 2, class 1, place 67
  LayerRun maps({.layer = loss(),
                 .bottoms = {uniform({3, 2, 10, 10}), given({3, 2, 10, 10}, std::move(many))}});
  expect_error([&] { maps.forward(); }, {"position 267", "sum to 1.25"});
  expect_error(
      [] {
        LayerRun run({.layer = loss("loss_param { ignore_label: 1 }"),
                      .bottoms = {uniform({1, 3}), given({1, 3}, {1, 0, 0})}});
      },
      {"ignore_label", "probabilities"});
}

TEST(SoftmaxWithLoss, Errors) {
  expect_error(
      [] {
        LayerRun run({.layer = loss(), .bottoms = {uniform({4, 5}), labels({3}, 5)}});
      },
      {"'score' (4x5)", "'label' (3)", "4 positions", "3 labels"});
  expect_error(
      [] {
        LayerRun run({.layer = loss(), .bottoms = {uniform({4, 5}), uniform({4, 3})}});
      },
      {"'label' (4x3)", "12 labels", "distributions (num_labels: 3)", "num_output: 3"});
  expect_error(
      [] {
        LayerRun run({.layer = loss("loss_param { label_smoothing: 1 }"),
                      .bottoms = {uniform({4, 5}), labels({4}, 5)}});
      },
      {"label_smoothing 1", "[0, 1)"});
}

TEST(SoftmaxWithLoss, ClassWeights) {
  const std::string weighted =
      "loss_param { weight_by_label_freqs: true class_weighting: 0.5 "
      "class_weighting: 3 ignore_label: 9 ";
  const double log2 = std::log(2);
  EXPECT_NEAR(loss_of(even_odds(weighted + "}", {0, 1, 1, 9})), log2 * 6.5 / 3, 1e-12);
  EXPECT_NEAR(loss_of(even_odds(weighted + "normalization: NONE }", {0, 1, 1, 9})), log2 * 6.5,
              1e-12);
  // 3 labels, 2 classes: 3 / (1 * 2) and 3 / (2 * 2).
  LayerRun run(
      even_odds("loss_param { weight_by_label_freqs: true ignore_label: 9 }", {0, 1, 1, 9}));
  run.forward();
  EXPECT_NEAR(run.top(0)[0], log2, 1e-6);
  run.backward();
  expect_close(run.bottom_diff(0), {-0.25, 0.25, 0.125, -0.125, 0.125, -0.125, 0, 0}, {1e-6, 0},
               "by frequency");
  run.bottom_values(1) = {1, 1, 1, 9};
  run.forward();
  run.backward();
  expect_close(run.bottom_diff(0), {1. / 6, -1. / 6, 1. / 6, -1. / 6, 1. / 6, -1. / 6, 0, 0},
               {1e-6, 0}, "one class alone");
}

TEST(SoftmaxWithLoss, GradientsWithClassWeights) {
  const std::string given =
      "weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 3 "
      "class_weighting: 0 class_weighting: 1.25 ";
  for (const std::string& settings :
       {given, given + "label_smoothing: 0.3", std::string("weight_by_label_freqs: true"),
        std::string("weight_by_label_freqs: true label_smoothing: 0.1 ignore_label: 2"),
        given + "normalization: FULL ignore_label: 1"}) {
    for (const Shape& shape : {Shape{5, 4}, Shape{2, 4, 3, 3}, Shape{1, 4, 37}}) {
      const Shape positions{shape.count() / 4};
      const LayerCase c{.layer = loss(text("loss_param { ", settings, " }")),
                        .bottoms = {uniform(shape, -3, 3), labels(positions, 4)}};
      check_gradients(c);
      check_engines(c);
    }
  }
}

TEST(SoftmaxWithLoss, ClassWeightsOfProbabilities) {
  const std::string settings =
      "loss_param { weight_by_label_freqs: true class_weighting: 2 class_weighting: 5 }";
  const LayerCase c{.layer = loss(settings),
                    .bottoms = {uniform({3, 2}), given({3, 2}, {0.25, 0.75, 1, 0, 0.5, 0.5})}};
  LayerRun run({.layer = c.layer, .bottoms = {given({1, 2}, {3, 3}), given({1, 2}, {0.25, 0.75})}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], std::log(2) * (2 * 0.25 + 5 * 0.75), 1e-5);
  check_gradients(c, {.bottoms = {0}});
  check_engines(c);
}

TEST(SoftmaxWithLoss, ErrorsOfClassWeights) {
  const auto run = [](const std::string& settings) {
    LayerRun{even_odds(text("loss_param { weight_by_label_freqs: true ", settings, " }"), {0})};
  };
  expect_error([&] { run("class_weighting: 1"); }, {"1 numbers", "2 classes"});
  expect_error([&] { run("class_weighting: 1 class_weighting: -2"); }, {"class_weighting -2"});
  expect_error(
      [] {
        LayerRun({.layer = loss("loss_param { weight_by_label_freqs: true }"),
                  .bottoms = {uniform({1, 2}), given({1, 2}, {0.25, 0.75})}});
      },
      {"labels cannot be counted", "class_weighting"});
}

}  // namespace
}  // namespace crema::test
