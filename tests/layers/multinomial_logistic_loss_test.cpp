#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string loss(const std::string& settings = "") {
  return text("layer { type: 'MultinomialLogisticLoss' bottom: 'prob' bottom: 'label' ", settings,
              " }");
}

TEST(MultinomialLogisticLoss, Values) {
  LayerRun run({.layer = loss("loss_weight: 2"),
                .bottoms = {given({2, 3}, {0.2, 0.3, 0.5, 0.1, 0.9, 0}), given({2}, {2, 0})}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], -(std::log(0.5) + std::log(0.1)) / 2, 1e-6);
  run.backward();
  expect_close(run.bottom_diff(0), {0, 0, -2, -10, 0, 0}, {1e-5, 0}, "diff");
}

TEST(MultinomialLogisticLoss, LeastProbability) {
  for (const double p : {0.0, -1.0, 1e-30}) {
    LayerRun run({.layer = loss(), .bottoms = {given({1, 2}, {p, 1}), given({1}, {0})}},
                 {.dtype = DType::f64});
    run.forward();
    EXPECT_NEAR(run.top(0)[0], 20 * std::log(10), 1e-9);
    run.backward();
    expect_close(run.bottom_diff(0), {-1e20, 0}, {0, 1e-9}, "diff");
  }
}

TEST(MultinomialLogisticLoss, Normalization) {
  const auto with = [](const std::string& settings) {
    LayerRun run({.layer = loss(text("loss_param { ignore_label: 7 ", settings, " }")),
                  .bottoms = {given({2, 2}, {0.5, 0.5, 0.5, 0.5}), given({2}, {7, 1})}});
    run.forward();
    return run.top(0)[0] / std::log(2);
  };
  EXPECT_NEAR(with(""), 1, 1e-6);
  EXPECT_NEAR(with("normalization: FULL"), 0.5, 1e-6);
  EXPECT_NEAR(with("normalize: false"), 0.5, 1e-6);
}

TEST(MultinomialLogisticLoss, Gradients) {
  for (const char* settings : {"", "loss_weight: 0.3", "loss_param { ignore_label: 1 }"}) {
    const LayerCase c{.layer = loss(settings),
                      .bottoms = {uniform({5, 3, 1, 2}, 0.1, 1), labels({5, 1}, 6)}};
    check_gradients(c);
    check_engines(c);
  }
  check_engines({.layer = loss(), .bottoms = {uniform({1, 1}, 0.1, 1), labels({1}, 1)}});
}

TEST(MultinomialLogisticLoss, NaNIsNotHidden) {
  LayerRun run({.layer = loss(), .bottoms = {given({1, 2}, {std::nan(""), 1}), given({1}, {0})}});
  run.forward();
  EXPECT_TRUE(std::isnan(run.top(0)[0]));
}

TEST(MultinomialLogisticLoss, TakesOtherShapes) {
  LayerRun run({.layer = loss(), .bottoms = {uniform({4, 3}, 0.1, 1), labels({4}, 3)}});
  run.forward();
  run.reshape({given({1, 2}, {0.25, 0.75}), given({1}, {0})});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], std::log(4), 1e-6);
}

TEST(MultinomialLogisticLoss, Errors) {
  const auto refuse = [](std::vector<Input> bottoms,
                         std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun({.layer = loss(), .bottoms = bottoms}).forward(); }, parts);
  };
  refuse({uniform({4, 5}), labels({4, 2}, 5)}, {"'prob' (4x5)", "4 items", "8 labels"});
  refuse({uniform({3, 5}), given({3}, {0, -1, 1})}, {"label -1 at position 1", "[0, 5)"});
}

}  // namespace
}  // namespace crema::test
