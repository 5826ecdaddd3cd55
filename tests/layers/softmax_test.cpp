#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string softmax(const std::string& settings = "") {
  return concat("layer { type: 'Softmax' softmax_param { ", settings, " } }");
}

TEST(Softmax, Values) {
  LayerRun run({.layer = softmax(), .bottoms = {given({2, 3}, {0, 0, 0, 1, 2, 3})}});
  run.forward();
  const double sum = std::exp(-2) + std::exp(-1) + 1;
  expect_close(run.top(0),
               {1. / 3, 1. / 3, 1. / 3, std::exp(-2) / sum, std::exp(-1) / sum, 1 / sum}, {1e-6, 0},
               "top");
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  LayerRun run({.layer = softmax(), .bottoms = {given({1, 3}, {1e30, 1e30, -1e30})}});
  run.forward();
  expect_close(run.top(0), {0.5, 0.5, 0}, {1e-7, 0}, "top");
}

TEST(Softmax, Axis) {
  LayerRun run({.layer = softmax("axis: 0"), .bottoms = {given({2, 2}, {0, 5, 0, 5})}});
  run.forward();
  expect_close(run.top(0), {0.5, 0.5, 0.5, 0.5}, {1e-7, 0}, "top");
}

TEST(Softmax, Gradients) {
  check_gradients({.layer = softmax(), .bottoms = {uniform({3, 5}, -2, 2)}});
  check_gradients({.layer = softmax(), .bottoms = {uniform({2, 4, 3, 2}, -2, 2)}});
  check_gradients({.layer = softmax("axis: -1"), .bottoms = {uniform({2, 4, 3}, -2, 2)}});
}

TEST(Softmax, EveryEngine) {
  check_engines({.layer = softmax(), .bottoms = {uniform({5, 1000}, -10, 10)}});
  check_engines({.layer = softmax(), .bottoms = {uniform({2, 21, 17, 19}, -10, 10)}});
}

TEST(Softmax, Errors) {
  expect_error(
      [] {
        LayerRun run({.layer = softmax("axis: 2"), .bottoms = {uniform({2, 3})}});
      },
      {"2", "2x3"});
  expect_error(
      [] {
        LayerRun run({.layer = softmax(), .bottoms = {uniform({2, 0})}});
      },
      {"axis 1", "2x0", "empty"});
}

}  // namespace
}  // namespace crema::test
