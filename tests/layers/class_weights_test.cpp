// class_weighting and weight_by_label_freqs of the losses that have them beside SoftmaxWithLoss and
// FocalLoss, and what loss_param says to losses that do not read a setting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

struct WeightedCase {
  const char* type;
  std::vector<Input> bottoms;  // scores of 3 classes, labels 1, 0, 1, 2, and more
};

const std::vector<double> kLabels = {1, 0, 1, 2};

std::vector<WeightedCase> weighted_cases() {
  const Input scores = uniform({4, 3}, 0.1, 1), classes = given({4}, kLabels);
  return {{"HingeLoss", {scores, classes}},
          {"MultinomialLogisticLoss", {scores, classes}},
          {"InfogainLoss", {scores, classes, given({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1})}},
          {"SoftmaxWithLoss", {scores, classes}},
          {"FocalLoss", {scores, classes}}};
}

std::string layer(const char* type, const std::string& settings) {
  return text("layer { type: '", type, "' loss_param { ", settings, " } }");
}

std::vector<double> results(const LayerCase& c) {
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  std::vector<double> all = run.top(0);
  run.backward();
  const std::vector<double> gradient = run.bottom_diff(0);
  all.insert(all.end(), gradient.begin(), gradient.end());
  return all;
}

/// What each item gives alone, times its factor.
std::vector<double> weighted_items(const WeightedCase& of, const std::vector<double>& factors) {
  std::vector<double> expected(1 + 4 * 3);
  for (size_t item = 0; item < 4; ++item) {
    std::vector<double> labels(4, 9);
    labels[item] = kLabels[item];
    std::vector<Input> bottoms = of.bottoms;
    bottoms[1] = given({4}, labels);
    const std::vector<double> alone = results(
        {.layer = layer(of.type, "ignore_label: 9 normalization: NONE"), .bottoms = bottoms});
    for (size_t i = 0; i < alone.size(); ++i)
      expected[i] += factors[static_cast<size_t>(kLabels[item])] * alone[i];
  }
  return expected;
}

TEST(ClassWeights, MultiplyTheLossOfTheirLabels) {
  for (const WeightedCase& of : weighted_cases()) {
    SCOPED_TRACE(of.type);
    const std::string given_weights =
        "weight_by_label_freqs: true class_weighting: 2 class_weighting: 0.5 class_weighting: 3 ";
    expect_close(results({.layer = layer(of.type, given_weights + "normalization: NONE"),
                          .bottoms = of.bottoms}),
                 weighted_items(of, {2, 0.5, 3}), {1e-12, 1e-12}, "given");
    // 4 labels of 3 classes, of which class 1 has two.
    expect_close(
        results({.layer = layer(of.type, "weight_by_label_freqs: true normalization: NONE"),
                 .bottoms = of.bottoms}),
        weighted_items(of, {4. / 3, 2. / 3, 4. / 3}), {1e-12, 1e-12}, "by frequency");
    const LayerCase c{.layer = layer(of.type, given_weights), .bottoms = of.bottoms};
    check_gradients(c);
    check_engines(c);
    expect_error(
        [&] {
          LayerRun({.layer = layer(of.type, "weight_by_label_freqs: true class_weighting: 2"),
                    .bottoms = of.bottoms});
        },
        {"1 numbers", "3 classes"});
  }
}

// The target of class c is that of the matrix times the weight of c.
TEST(ClassWeights, OfInfogainLossWeighTheColumnsOfTheMatrix) {
  std::vector<Input> bottoms = weighted_cases()[2].bottoms;
  bottoms[2] = given({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::vector<Input> columns = bottoms;
  columns[2] = given({3, 3}, {2, 1, 9, 8, 2.5, 18, 14, 4, 27});
  expect_close(results({.layer = layer("InfogainLoss",
                                       "weight_by_label_freqs: true class_weighting: 2 "
                                       "class_weighting: 0.5 class_weighting: 3"),
                        .bottoms = bottoms}),
               results({.layer = layer("InfogainLoss", ""), .bottoms = columns}), {1e-12, 1e-12},
               "columns");
}

// Each score has a class, along axis 1.
TEST(ClassWeights, OfSigmoidCrossEntropyLossMultiplyEachScore) {
  const Input scores = uniform({2, 3, 2}, -2, 2), targets = labels({2, 3, 2}, 2);
  const char* const given_weights =
      "weight_by_label_freqs: true class_weighting: 2 class_weighting: 0.5 class_weighting: 3 ";
  const LayerCase weighted{.layer = layer("SigmoidCrossEntropyLoss", given_weights),
                           .bottoms = {scores, targets}};
  std::vector<double> gradient =
      results({.layer = layer("SigmoidCrossEntropyLoss", ""), .bottoms = {scores, targets}});
  const double factors[] = {2, 0.5, 3};
  for (size_t i = 0; i < 12; ++i) gradient[1 + i] *= factors[i / 2 % 3];
  const std::vector<double> all = results(weighted);
  expect_close({all.begin() + 1, all.end()}, {gradient.begin() + 1, gradient.end()}, {1e-12, 1e-12},
               "gradient");
  check_gradients(weighted);
  check_engines(weighted);
  // Labels cannot be counted: a warning says so.
  EXPECT_EQ(results({.layer = layer("SigmoidCrossEntropyLoss", "weight_by_label_freqs: true"),
                     .bottoms = {scores, targets}}),
            results({.layer = layer("SigmoidCrossEntropyLoss", ""), .bottoms = {scores, targets}}));
}

// In f32, runs of scores of one class take another way than in f64.
TEST(ClassWeights, OfSigmoidCrossEntropyLossInF32) {
  for (const Shape& shape : {Shape{50, 3}, Shape{5, 3, 7}, Shape{3, 3, 41}, Shape{2, 3, 40, 40}}) {
    SCOPED_TRACE(shape.str());
    const LayerCase weighted{
        .layer = layer("SigmoidCrossEntropyLoss",
                       "weight_by_label_freqs: true class_weighting: 2 class_weighting: 0.5 "
                       "class_weighting: 3 ignore_label: 2 normalization: NONE"),
        .bottoms = {uniform(shape, -4, 4), labels(shape, 3)}};
    LayerRun run(weighted);
    run.forward();
    run.backward();
    std::vector<double> all = run.top(0);
    const std::vector<double> gradient = run.bottom_diff(0);
    all.insert(all.end(), gradient.begin(), gradient.end());
    expect_close(all, results(weighted), {1e-4, 1e-5}, "f32");
  }
}

// Two priors: the first one is matched with a box of class 2, the other one is background.
TEST(ClassWeights, OfMultiBoxLossMultiplyTheLossOfTheLabel) {
  const Input priors = given({1, 2, 8}, {0.1, 0.1, 0.4, 0.4, 0.5, 0.5, 0.9, 0.9,  //
                                         0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2});
  const Input boxes = given({1, 1, 1, 8}, {0, 2, 0, 0.1, 0.1, 0.4, 0.4, 0});
  const auto of = [&](const char* kind, const std::string& loss) {
    return LayerCase{.layer = text("layer { type: 'MultiBoxLoss' multibox_loss_param { ",
                                   "num_classes: 3 mining_type: NONE conf_loss_type: ", kind,
                                   " } loss_param { normalization: NONE ", loss, " } }"),
                     .bottoms = {given({1, 8}, std::vector<double>(8, 0)),
                                 given({1, 6}, {0.5, -1, 0.25, 1, 0, -0.5}), priors, boxes}};
  };
  const auto gradients = [](const LayerCase& c) {
    LayerRun run(c, {.dtype = DType::f64});
    run.forward();
    run.backward();
    return run.bottom_diff(1);
  };
  const std::string weights =
      "weight_by_label_freqs: true class_weighting: 0.25 class_weighting: 5 class_weighting: 3";
  for (const char* kind : {"SOFTMAX", "LOGISTIC"}) {
    SCOPED_TRACE(kind);
    std::vector<double> expected = gradients(of(kind, ""));
    const double by_class[] = {0.25, 5, 3};
    for (size_t i = 0; i < 6; ++i) {
      const double by_label = i < 3 ? 3 : 0.25;
      expected[i] *= std::string_view(kind) == "SOFTMAX" ? by_label : by_class[i % 3];
    }
    expect_close(gradients(of(kind, weights)), expected, {1e-12, 1e-12}, "given");
    check_gradients(of(kind, weights));
    check_engines(of(kind, weights));
  }
  // One label of each of the two classes that occur: both weigh 1.
  expect_close(gradients(of("SOFTMAX", "weight_by_label_freqs: true")),
               gradients(of("SOFTMAX", "")), {1e-12, 1e-12}, "by frequency");
}

std::vector<std::string> warnings_of(const std::string& net) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& text) {
    if (severity == Severity::warning) warnings.push_back(text);
  }});
  Net built(net_param(net), context, {.phase = Phase::train});
  return warnings;
}

TEST(LossParam, SettingsWithoutEffectAreWarnedOf) {
  const std::string inputs =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 } } }"
      "layer { name: 'l' type: 'Input' top: 'l' input_param { shape { dim: 4 } } } ";
  const auto with = [&](const char* type, const char* labels, const char* settings) {
    return warnings_of(text(inputs, "layer { name: 'op' type: '", type, "' bottom: 'x' bottom: '",
                            labels, "' top: 'loss' loss_param { ", settings, " } }"));
  };
  using ::testing::ElementsAre;
  using ::testing::HasSubstr;
  EXPECT_THAT(with("SmoothL1LossOHEM", "x", "ignore_label: 1"),
              ElementsAre(HasSubstr("layer 'op': ignore_label has no effect on SmoothL1LossOHEM")));
  for (const char* type :
       {"SoftmaxWithLoss", "FocalLoss", "HingeLoss", "MultinomialLogisticLoss"}) {
    EXPECT_THAT(with(type, "l", "pre_fixed_normalizer: 2"),
                ElementsAre(HasSubstr("pre_fixed_normalizer has no effect without")));
    EXPECT_THAT(with(type, "l", "normalize: false normalization: FULL"),
                ElementsAre(HasSubstr("normalize has no effect beside normalization")));
    EXPECT_THAT(with(type, "l", "weight_by_label_freqs: false class_weighting: 2"),
                ElementsAre(HasSubstr(
                    type == std::string("FocalLoss")
                        ? "class_weighting has no effect with weight_by_label_freqs: false; remove"
                        : "class_weighting has no effect without weight_by_label_freqs: true")));
    EXPECT_THAT(with(type, "l", "normalization: PRE_FIXED pre_fixed_normalizer: 2"), ElementsAre());
  }
  EXPECT_THAT(with("SigmoidCrossEntropyLoss", "x", "weight_by_label_freqs: true"),
              ElementsAre(HasSubstr("weight_by_label_freqs has no effect on "
                                    "SigmoidCrossEntropyLoss without class_weighting")));
  EXPECT_THAT(
      warnings_of(inputs + "layer { name: 'op' type: 'FocalLoss' bottom: 'x' bottom: 'l' top: 'y' "
                           "focal_loss_param { beta: 2 } }"),
      ElementsAre(HasSubstr("layer 'op': beta 2 has no effect: it belongs to type LINEAR")));
}

}  // namespace
}  // namespace crema::test
