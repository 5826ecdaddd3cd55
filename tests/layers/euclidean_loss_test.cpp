#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const char* const kLoss = R"(layer { type: "EuclideanLoss" })";
const char* const kWeighted = R"(layer { type: "EuclideanLoss" loss_weight: 0.25 })";

TEST(EuclideanLoss, Value) {
  LayerRun run(
      {.layer = kLoss, .bottoms = {given({2, 2}, {1, 2, 3, 4}), given({2, 2}, {0, 2, 5, 1})}});
  run.forward();
  expect_close(run.top(0), {(1 + 0 + 4 + 9) / 4.}, {1e-6, 0}, "loss");
  EXPECT_EQ(run.top_blob(0).shape().rank(), 0);
  run.backward();
  expect_close(run.bottom_diff(0), {0.5, 0, -1, 1.5}, {1e-6, 0}, "diff 0");
  expect_close(run.bottom_diff(1), {-0.5, 0, 1, -1.5}, {1e-6, 0}, "diff 1");
}

TEST(EuclideanLoss, Gradients) {
  for (const char* layer : {kLoss, kWeighted}) {
    check_gradients({.layer = layer, .bottoms = {uniform({4, 3, 2}), uniform({4, 3, 2})}});
  }
  check_gradients({.layer = kLoss, .bottoms = {uniform({4, 6}), uniform({4, 3, 2})}});
}

TEST(EuclideanLoss, ManyValues) {
  check_engines({.layer = kWeighted, .bottoms = {uniform({7, 9999}), uniform({7, 9999})}});
}

TEST(EuclideanLoss, ShapeMismatch) {
  const std::string layer = R"(layer { type: "EuclideanLoss" bottom: "guess" bottom: "truth" })";
  expect_error(
      [&] {
        LayerRun run({.layer = layer, .bottoms = {uniform({4, 3}), uniform({4, 2})}});
      },
      {"'guess' (4x3)", "'truth' (4x2)"});
  expect_error(
      [&] {
        LayerRun run({.layer = layer, .bottoms = {uniform({4, 3}), uniform({3, 4})}});
      },
      {"'guess' (4x3)", "'truth' (3x4)"});
}

}  // namespace
}  // namespace crema::test
