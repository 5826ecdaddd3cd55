#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string loss(const std::string& settings = "") {
  return text("layer { type: 'HingeLoss' bottom: 'score' bottom: 'label' ", settings, " }");
}
const char* const kSquared = "hinge_loss_param { norm: L2 }";

std::vector<double> loss_and_diff(const LayerCase& c) {
  LayerRun run(c);
  run.forward();
  run.backward();
  std::vector<double> all = run.bottom_diff(0);
  all.insert(all.begin(), run.top(0)[0]);
  return all;
}

TEST(HingeLoss, Values) {
  // Margins 0.5, none and 4 of the first item, 1, 2 and 1 of the second.
  const std::vector<Input> bottoms = {given({2, 3}, {0.5, -2, 3, 0, 1, 0}), given({2}, {0, 2})};
  expect_close(loss_and_diff({.layer = loss(), .bottoms = bottoms}),
               {8.5 / 2, -0.5, 0, 0.5, 0.5, 0.5, -0.5}, {1e-6, 0}, "L1");
  expect_close(loss_and_diff({.layer = loss(kSquared), .bottoms = bottoms}),
               {22.25 / 2, -0.5, 0, 4, 1, 2, -1}, {1e-6, 0}, "L2");
  expect_close(loss_and_diff({.layer = loss("loss_weight: 3"), .bottoms = bottoms}),
               {8.5 / 2, -1.5, 0, 1.5, 1.5, 1.5, -1.5}, {1e-6, 0}, "weight 3");
}

// All values of an item are the scores of its classes.
TEST(HingeLoss, ClassesAreAllAxesButTheFirst) {
  const std::vector<double> values = {0.5, -2, 3, 0, 1, 0};
  for (const Shape& shape : {Shape{2, 3}, Shape{2, 3, 1, 1}, Shape{2, 1, 3}}) {
    const auto all =
        loss_and_diff({.layer = loss(), .bottoms = {given(shape, values), given({2, 1}, {0, 2})}});
    EXPECT_NEAR(all[0], 4.25, 1e-6);
  }
  EXPECT_NEAR(
      loss_and_diff({.layer = loss(), .bottoms = {given({2}, {0.5, 4}), given({2}, {0, 0})}})[0],
      0.25, 1e-6);
}

TEST(HingeLoss, Normalization) {
  const auto with = [](const std::string& settings) {
    return loss_and_diff({.layer = loss(text("loss_param { ", settings, " }")),
                          .bottoms = {given({2, 2}, {0, 0, 0, 0}), given({2}, {1, 9})}})
        .front();
  };
  EXPECT_NEAR(with("ignore_label: 9"), 2, 1e-6);
  EXPECT_NEAR(with("ignore_label: 9 normalization: BATCH_SIZE"), 1, 1e-6);
  EXPECT_NEAR(with("ignore_label: 9 normalization: PRE_FIXED pre_fixed_normalizer: 8"), 0.25, 1e-6);
}

TEST(HingeLoss, Gradients) {
  // Away from the kinks at 1 and -1.
  const std::vector<Input> all = {uniform({5, 7}, -0.9, 0.9), labels({5}, 7)},
                           some = {uniform({5, 7}, 1.1, 3), labels({5}, 7)};
  for (const char* settings :
       {"", kSquared, "loss_weight: 0.3", "loss_param { ignore_label: 3 }",
        "hinge_loss_param { norm: L2 } loss_param { normalization: NONE }"}) {
    for (const auto& bottoms : {all, some}) {
      check_gradients({.layer = loss(settings), .bottoms = bottoms});
      check_engines({.layer = loss(settings), .bottoms = bottoms});
    }
  }
  check_engines({.layer = loss(kSquared), .bottoms = {uniform({1, 1}, -2, 2), labels({1}, 1)}});
  check_engines({.layer = loss(), .bottoms = {uniform({9, 4099}, -2, 2), labels({9}, 4099)}});
}

TEST(HingeLoss, NaNIsNotHidden) {
  for (const char* settings : {"", kSquared}) {
    for (const size_t at : {0, 1, 2}) {
      LayerRun run({.layer = loss(settings), .bottoms = {uniform({1, 3}), given({1}, {1})}});
      run.bottom_values(0)[at] = std::nan("");
      run.forward();
      EXPECT_TRUE(std::isnan(run.top(0)[0])) << settings << at;
    }
  }
}

TEST(HingeLoss, TakesOtherShapes) {
  LayerRun run({.layer = loss(), .bottoms = {uniform({4, 3}), labels({4}, 3)}});
  run.forward();
  run.reshape({given({1, 2}, {0, 0}), given({1}, {1})});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 2, 1e-6);
}

TEST(HingeLoss, Errors) {
  const auto refuse = [](std::vector<Input> bottoms,
                         std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun({.layer = loss(), .bottoms = bottoms}).forward(); }, parts);
  };
  refuse({uniform({4, 5}), labels({3}, 5)},
         {"'score' (4x5)", "4 items", "'label' (3)", "3 labels"});
  refuse({uniform({4, 0}), labels({4}, 1)}, {"'score' (4x0) is empty"});
  refuse({given({}, {1}), given({}, {0})}, {"'score' has no axes"});
  refuse({uniform({3, 5}), given({3}, {0, 5, 1})}, {"label 5 at position 1", "[0, 5)"});
  refuse({uniform({3, 5}), given({3}, {0, 4, 0.5})}, {"label 0.5 at position 2", "[0, 5)"});
  expect_error(
      [] {
        LayerRun run({.layer = loss("loss_param { normalization: PRE_FIXED "
                                    "pre_fixed_normalizer: -1 }"),
                      .bottoms = {uniform({4, 5}), labels({4}, 5)}});
      },
      {"pre_fixed_normalizer -1", "positive"});
}

}  // namespace
}  // namespace crema::test
