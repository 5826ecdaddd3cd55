#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string loss(const std::string& settings = "") {
  return text("layer { type: 'SigmoidCrossEntropyLoss' bottom: 'score' bottom: 'target' ", settings,
              " }");
}

double loss_of(const LayerCase& c, DType dtype = DType::f32) {
  LayerRun run(c, {.dtype = dtype});
  run.forward();
  return run.top(0)[0];
}

TEST(SigmoidCrossEntropyLoss, Values) {
  LayerRun run({.layer = loss("loss_weight: 2"),
                .bottoms = {given({2, 2}, {0, 2, -1, 3}), given({2, 2}, {0.5, 1, 0, -2})}});
  run.forward();
  const auto of = [](double x, double t) { return std::log(1 + std::exp(x)) - t * x; };
  EXPECT_NEAR(run.top(0)[0], (of(0, 0.5) + of(2, 1) + of(-1, 0) + of(3, -2)) / 2, 1e-5);
  run.backward();
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  expect_close(run.bottom_diff(0), {0, sigmoid(2) - 1, sigmoid(-1), sigmoid(3) + 2}, {1e-6, 0},
               "diff");
}

// Neither overflows nor loses the small loss of a score on the right side.
TEST(SigmoidCrossEntropyLoss, LargeScores) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto of = [&](double x, double t) {
      return loss_of({.layer = loss(), .bottoms = {given({1, 1}, {x}), given({1, 1}, {t})}}, dtype);
    };
    for (const double x : {100.0, 1000.0, 1e30}) {
      EXPECT_NEAR(of(x, 0) / x, 1, 1e-6);
      EXPECT_NEAR(of(-x, 1) / x, 1, 1e-6);
      EXPECT_NEAR(of(x, 1), 0, 1e-30);
      EXPECT_NEAR(of(-x, 0), 0, 1e-30);
    }
    EXPECT_NEAR(of(30, 1) / std::exp(-30), 1, 1e-5);
    EXPECT_NEAR(of(-30, 0) / std::exp(-30), 1, 1e-5);
  }
}

TEST(SigmoidCrossEntropyLoss, Normalization) {
  const auto with = [](const std::string& settings) {
    return loss_of({.layer = loss(text("loss_param { ", settings, " }")),
                    .bottoms = {given({2, 3}, {0, 0, 0, 0, 0, 0}),
                                given({2, 3}, {1, 0, -1, -1, 1, 0.5})}}) /
           std::log(2);
  };
  EXPECT_NEAR(with(""), 3, 1e-6) << "the batch size by default";
  EXPECT_NEAR(with("ignore_label: -1"), 2, 1e-6);
  EXPECT_NEAR(with("ignore_label: -1 normalization: VALID"), 1, 1e-6);
  EXPECT_NEAR(with("ignore_label: -1 normalize: true"), 1, 1e-6);
  EXPECT_NEAR(with("ignore_label: -1 normalize: false"), 2, 1e-6);
  EXPECT_NEAR(with("ignore_label: -1 normalization: FULL"), 4. / 6, 1e-6);
  EXPECT_NEAR(with("ignore_label: -1 normalization: NONE"), 4, 1e-6);
  EXPECT_NEAR(with("ignore_label: -1 normalization: PRE_FIXED pre_fixed_normalizer: 8"), 0.5, 1e-6);
  EXPECT_NEAR(with("normalization: VALID"), 1, 1e-6) << "nothing is ignored";
  EXPECT_NEAR(with("ignore_label: 0 normalization: NONE"), 5, 1e-6) << "0.5 is not 0";
}

TEST(SigmoidCrossEntropyLoss, AllIgnoredIsZero) {
  LayerRun run({.layer = loss("loss_param { ignore_label: 255 normalization: VALID }"),
                .bottoms = {uniform({2, 2}), given({2, 2}, {255, 255, 255, 255})}});
  run.forward();
  EXPECT_EQ(run.top(0)[0], 0);
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), testing::Each(0));
}

TEST(SigmoidCrossEntropyLoss, Gradients) {
  for (const char* settings :
       {"", "loss_weight: 0.3", "loss_param { ignore_label: 1 normalization: VALID }",
        "loss_param { normalization: FULL }"}) {
    const LayerCase whole{.layer = loss(settings),
                          .bottoms = {uniform({3, 4, 1, 2}, -3, 3), labels({3, 8}, 2)}};
    check_gradients(whole);
    check_engines(whole);
    check_gradients({.layer = loss(settings), .bottoms = {uniform({3, 5}), uniform({3, 5})}});
  }
  for (const int64_t n : {1, 3, 31, 70001}) {
    check_engines({.layer = loss(), .bottoms = {uniform({2, n}, -30, 30), uniform({2, n}, -2, 2)}},
                  {1e-5, 1e-4});
  }
}

TEST(SigmoidCrossEntropyLoss, NoGradientForTargets) {
  LayerRun run({.layer = loss(), .bottoms = {uniform({2, 3}), uniform({2, 3})}});
  EXPECT_TRUE(run.layer().can_propagate(0));
  EXPECT_FALSE(run.layer().can_propagate(1));
}

TEST(SigmoidCrossEntropyLoss, NaNIsNotHidden) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t bottom : {0, 1}) {
      for (const size_t at : {0, 16}) {
        LayerRun run({.layer = loss("loss_param { ignore_label: 9 }"),
                      .bottoms = {uniform({1, 17}), uniform({1, 17})}},
                     {.dtype = dtype});
        run.bottom_values(static_cast<int>(bottom))[at] = std::nan("");
        run.forward();
        EXPECT_TRUE(std::isnan(run.top(0)[0])) << bottom << " " << at;
        run.backward();
        EXPECT_TRUE(std::isnan(run.bottom_diff(0)[at])) << bottom << " " << at;
      }
    }
  }
}

TEST(SigmoidCrossEntropyLoss, TakesOtherShapes) {
  LayerRun run({.layer = loss(), .bottoms = {uniform({4, 3}), uniform({4, 3})}});
  run.forward();
  run.reshape({given({1, 2}, {0, 0}), given({1, 2}, {1, 0})});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 2 * std::log(2), 1e-6);
}

TEST(SigmoidCrossEntropyLoss, Errors) {
  const auto refuse = [](std::vector<Input> bottoms,
                         std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun run({.layer = loss(), .bottoms = bottoms}); }, parts);
  };
  refuse({uniform({4, 3}), uniform({4, 2})}, {"'score' (4x3)", "'target' (4x2)"});
  refuse({uniform({4, 3}), uniform({3, 4})}, {"'score' (4x3)", "'target' (3x4)", "batch size"});
  refuse({given({}, {1}), given({}, {1})}, {"'score'", "'target'"});
}

}  // namespace
}  // namespace crema::test
