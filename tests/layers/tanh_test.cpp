#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const char* const kTanH = R"(layer { type: "TanH" })";

TEST(TanH, ValuesAndDerivatives) {
  const std::vector<double> values = {-200, -3, -0.5, 0, 1e-6, 2, 200};
  LayerRun run({.layer = kTanH, .bottoms = {given({7}, values)}}, {.dtype = DType::f64});
  run.forward();
  run.set_top_diff(0, {2, 2, 2, 2, 2, 2, 2});
  run.backward();
  std::vector<double> expected, derivatives;
  for (const double x : values) {
    const double y = std::tanh(x);
    expected.push_back(y);
    derivatives.push_back(2 * (1 - y * y));
  }
  expect_close(run.top(0), expected, {1e-15, 1e-15}, "top");
  expect_close(run.bottom_diff(0), derivatives, {1e-15, 1e-15}, "bottom diff");
}

TEST(TanH, Gradients) {
  check_gradients({.layer = kTanH, .bottoms = {uniform({2, 3, 5, 4}, -3, 3)}});
}

TEST(TanH, EveryEngineAndFormat) {
  const auto ran = check_engines({.layer = kTanH, .bottoms = {uniform({2, 32, 3, 5}, -6, 6)}});
  EXPECT_THAT(ran, testing::IsSupersetOf({"reference contiguous", "reference channels_last",
                                          "reference blocked8", "reference blocked16"}));
  check_engines({.layer = kTanH, .bottoms = {uniform({2, 11, 3, 5}, -100, 100)}});
  check_engines({.layer = kTanH, .bottoms = {uniform({3, 7}, -6, 6)}});
}

}  // namespace
}  // namespace crema::test
