#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

constexpr double kPi = std::numbers::pi;

std::string product(const std::string& settings) {
  return text("layer { type: 'MarginInnerProduct' bottom: 'x' bottom: 'label' ",
              "margin_inner_product_param { num_output: 2 ", settings, " } }");
}

/// A vector of length 2 at `theta` from the weights of class 1, which have length 3; class 0 is a
/// quarter turn further.
LayerCase at_angle(double theta, const std::string& settings) {
  return {.layer = product(settings),
          .bottoms = {given({1, 2}, {2 * std::cos(theta), 2 * std::sin(theta)}), given({1}, {1})},
          .params = {{0, -0.5, 3, 0}}};
}

TEST(MarginInnerProduct, Values) {
  const char* const types[] = {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"};
  for (int m = 1; m <= 4; ++m) {
    for (double theta = 0.05; theta < kPi; theta += 0.1) {
      const LayerCase c =
          at_angle(theta, text("type: ", types[m - 1], " base: 3 gamma: 0.5 power: 2"));
      LayerRun run(c, {.dtype = DType::f64});
      run.forward();
      const double k = std::floor(m * theta / kPi);
      const double psi = std::pow(-1, k) * std::cos(m * theta) - 2 * k;
      const double lambda = 3 / (1.5 * 1.5);
      expect_close(run.top(0),
                   {-2 * std::sin(theta), 2 * (lambda * std::cos(theta) + psi) / (1 + lambda)},
                   {1e-12, 0}, text("m ", m, " theta ", theta));
    }
  }
}

TEST(MarginInnerProduct, LambdaFalls) {
  LayerCase c = at_angle(1, "type: DOUBLE base: 100 gamma: 1 power: 1 lambda_min: 5 iteration: 3");
  c.tops = 2;
  LayerRun run(c);
  run.forward();
  EXPECT_NEAR(run.top(1)[0], 100. / 5, 1e-5);
  run.state().iteration = 5;
  run.forward();
  EXPECT_NEAR(run.top(1)[0], 100. / 10, 1e-5);
  run.state().iteration = 500;
  run.forward();
  EXPECT_NEAR(run.top(1)[0], 5, 1e-6);
}

TEST(MarginInnerProduct, Gradients) {
  for (const char* type : {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"}) {
    for (const char* more : {"base: 0", "base: 7 gamma: 0.1", "base: 2 axis: -1"}) {
      const std::string layer = text(
          "layer { type: 'MarginInnerProduct' bottom: 'x' bottom: 'label' "
          "margin_inner_product_param { num_output: 5 weight_filler { type: 'gaussian' std: 1 } ",
          "type: ", type, " ", more, " } }");
      const LayerCase c{.layer = layer, .bottoms = {uniform({7, 6}, -2, 2), labels({7}, 5)}};
      check_gradients(c);
      check_engines(c);
    }
  }
}

TEST(MarginInnerProduct, TheLengthOfTheWeightsHasNoEffect) {
  LayerCase c = at_angle(1, "type: TRIPLE");
  LayerRun first(c, {.dtype = DType::f64});
  first.forward();
  for (double& w : c.params[0]) w *= 100;
  LayerRun second(c, {.dtype = DType::f64});
  second.forward();
  expect_close(first.top(0), second.top(0), {1e-12, 0}, "y");
}

TEST(MarginInnerProduct, VectorsOfLengthZero) {
  LayerCase c = at_angle(1, "type: QUADRUPLE");
  c.bottoms[0].values = {0, 0};
  c.params[0][0] = c.params[0][1] = 0;
  LayerRun run(c);
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{0, 0}));
  run.backward();
  for (const double d : run.bottom_diff(0)) EXPECT_TRUE(std::isfinite(d));
  for (const double d : run.gradient(0)) EXPECT_TRUE(std::isfinite(d));
}

TEST(MarginInnerProduct, EmptyBatch) {
  LayerRun run({.layer = product(""), .bottoms = {given({0, 2}, {}), given({0}, {})}});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 2}));
  run.backward();
  EXPECT_THAT(run.gradient(0), testing::Each(0));
}

TEST(MarginInnerProduct, Errors) {
  const auto refuses = [](const std::string& settings,
                          std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun{at_angle(1, settings)}; }, parts);
  };
  refuses("base: -1", {"base -1"});
  refuses("gamma: -1", {"gamma -1"});
  refuses("power: -400", {"power -400"});
  refuses("lambda_min: -2", {"lambda_min -2"});
  refuses("iteration: -2", {"iteration -2"});
  LayerCase c = at_angle(1, "");
  c.layer = "layer { type: 'MarginInnerProduct' bottom: 'x' bottom: 'label' }";
  expect_error([&] { LayerRun{c}; }, {"num_output"});
  c = at_angle(1, "");
  c.bottoms[1] = given({1}, {2});
  expect_error(
      [&] {
        LayerRun run(c);
        run.forward();
      },
      {"2", "num_output"});
  c.bottoms[1] = given({2}, {1, 1});
  expect_error([&] { LayerRun{c}; }, {"1 samples", "2 labels"});
}

}  // namespace
}  // namespace crema::test
