#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const char* const kSigmoid = R"(layer { type: "Sigmoid" })";

TEST(Sigmoid, ValuesAndDerivatives) {
  const std::vector<double> values = {-200, -3, -0.5, 0, 1e-6, 2, 200};
  LayerRun run({.layer = kSigmoid, .bottoms = {given({7}, values)}}, {.dtype = DType::f64});
  run.forward();
  run.set_top_diff(0, {2, 2, 2, 2, 2, 2, 2});
  run.backward();
  std::vector<double> expected, derivatives;
  for (const double x : values) {
    const double y = 1 / (1 + std::exp(-x));
    expected.push_back(y);
    derivatives.push_back(2 * (y * (1 - y)));
  }
  expect_close(run.top(0), expected, {1e-15, 1e-15}, "top");
  expect_close(run.bottom_diff(0), derivatives, {1e-15, 1e-15}, "bottom diff");
}

TEST(Sigmoid, Gradients) {
  check_gradients({.layer = kSigmoid, .bottoms = {uniform({2, 3, 5, 4}, -3, 3)}});
}

TEST(Sigmoid, EveryEngineAndFormat) {
  const auto ran = check_engines({.layer = kSigmoid, .bottoms = {uniform({2, 32, 3, 5}, -6, 6)}});
  EXPECT_THAT(ran, testing::IsSupersetOf({"reference contiguous", "reference channels_last",
                                          "reference blocked8", "reference blocked16"}));
  check_engines({.layer = kSigmoid, .bottoms = {uniform({2, 11, 3, 5}, -100, 100)}});
  check_engines({.layer = kSigmoid, .bottoms = {uniform({3, 7}, -6, 6)}});
}

// sigmoid(0) is not 0: padded channels would not stay zero.
TEST(Sigmoid, NoBlockedFormatWithPadding) {
  const auto ran = check_engines({.layer = kSigmoid, .bottoms = {uniform({2, 11, 3, 5})}});
  EXPECT_THAT(ran, testing::Not(testing::Contains(testing::HasSubstr("blocked"))));
}

}  // namespace
}  // namespace crema::test
