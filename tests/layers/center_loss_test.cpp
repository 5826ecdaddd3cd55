#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string center_loss(const std::string& settings, const std::string& more = "") {
  return text("layer { type: 'CenterLoss' bottom: 'x' bottom: 'label' center_loss_param { ",
              settings, " } ", more, " }");
}

/// Two samples of class 2 and one of class 0.
const LayerCase kThree = {.layer = center_loss("num_output: 3"),
                          .bottoms = {given({3, 2}, {1, 2, 3, 4, -1, 0}), given({3}, {2, 0, 2})},
                          .params = {{1, 1, 9, 9, 0, 1}}};

TEST(CenterLoss, Values) {
  LayerRun run(kThree);
  run.forward();
  EXPECT_NEAR(run.top(0)[0], (2. + 13 + 2) / 6, 1e-6);
  run.backward();
  expect_close(run.bottom_diff(0), {1. / 3, 1. / 3, 2. / 3, 1, -1. / 3, -1. / 3}, {1e-6, 0}, "dx");
  // Class 2: ((0 - 1) + (0 + 1), (1 - 2) + (1 - 0)) / 3; class 0: (1 - 3, 1 - 4) / 2.
  expect_close(run.gradient(0), {-1, -1.5, 0, 0, 0, 0}, {1e-6, 0}, "centres");
}

TEST(CenterLoss, TheWeightOfTheLossDoesNotMoveTheCentres) {
  LayerCase weighted = kThree;
  weighted.layer = center_loss("num_output: 3", "loss_weight: 0.01");
  LayerRun run(weighted);
  run.forward();
  run.backward();
  expect_close(run.gradient(0), {-1, -1.5, 0, 0, 0, 0}, {1e-6, 0}, "centres");
  EXPECT_NEAR(run.bottom_diff(0)[0], 0.01 / 3, 1e-7);
}

// The rule that moves the centres is the derivative of the loss where each sample is alone in its
// class, and there are two.
TEST(CenterLoss, Gradients) {
  for (const char* settings : {"num_output: 4 center_filler { type: 'gaussian' std: 1 }",
                               "num_output: 4 axis: -1 center_filler { type: 'xavier' }"}) {
    check_gradients(
        {.layer = center_loss(settings), .bottoms = {uniform({2, 5}), given({2}, {3, 1})}});
  }
  check_gradients({.layer = center_loss("num_output: 4 axis: 2"),
                   .bottoms = {uniform({1, 2, 5}), given({2}, {3, 1})}});
}

TEST(CenterLoss, EveryEngine) {
  for (const Shape& shape : {Shape{6, 5}, Shape{1, 1}, Shape{33, 4, 3, 3}}) {
    check_engines({.layer = center_loss("num_output: 7 center_filler { type: 'gaussian' std: 1 }"),
                   .bottoms = {uniform(shape), labels({shape[0]}, 7)}});
  }
}

TEST(CenterLoss, EmptyBatch) {
  LayerRun run(
      {.layer = center_loss("num_output: 3"), .bottoms = {given({0, 2}, {}), given({0}, {})}});
  run.forward();
  EXPECT_EQ(run.top(0)[0], 0);
  run.backward();
}

TEST(CenterLoss, Errors) {
  const auto refuses = [](LayerCase c, std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run(c);
          run.forward();
        },
        parts);
  };
  LayerCase c = kThree;
  c.layer = center_loss("");
  refuses(c, {"num_output", "number of classes"});
  c = kThree;
  c.bottoms[1] = given({3}, {2, 3, 0});
  refuses(c, {"3", "num_output"});
  c.bottoms[1] = given({2}, {2, 0});
  refuses(c, {"3 samples", "2 labels"});
}

}  // namespace
}  // namespace crema::test
