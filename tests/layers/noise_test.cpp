#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "layers/noise/noise_math.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string noise(const std::string& settings) {
  return text("layer { type: 'Noise' noise_param { ", settings, " } }");
}

struct Moments {
  double mean = 0, deviation = 0, fourth = 0;  // the last: of (x - mean)^4 / variance^2
};
Moments moments(const std::vector<double>& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n;
  double second = 0, fourth = 0;
  for (const double v : values) {
    const double square = (v - m.mean) * (v - m.mean);
    second += square / n;
    fourth += square * square / n;
  }
  m.deviation = std::sqrt(second);
  m.fourth = fourth / (second * second);
  return m;
}

/// What is added to values of 2 and -2.
std::vector<double> added(const std::string& settings, const RunOptions& options = {},
                          Phase phase = Phase::train) {
  std::vector<double> x(100003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 2 : -2;
  LayerRun run({.layer = noise(settings),
                .bottoms = {given({static_cast<int64_t>(x.size())}, x)},
                .phase = phase},
               options);
  run.forward();
  std::vector<double> y = run.top(0);
  for (size_t i = 0; i < x.size(); ++i) y[i] -= x[i];
  return y;
}

TEST(Noise, HasTheMomentsAskedFor) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Moments gaussian = moments(added("mean: 0.5 std: 0.1", {.dtype = dtype}));
    EXPECT_NEAR(gaussian.mean, 0.5, 0.002);
    EXPECT_NEAR(gaussian.deviation, 0.1, 0.002);
    EXPECT_NEAR(gaussian.fourth, 3, 0.1);
    const Moments even = moments(added("std: 0.1 distribution: UNIFORM", {.dtype = dtype}));
    EXPECT_NEAR(even.mean, 0, 0.002);
    EXPECT_NEAR(even.deviation, 0.1, 0.002);
    EXPECT_NEAR(even.fourth, 1.8, 0.03);
  }
}

TEST(Noise, RelativeToTheValueAndToTheRange) {
  const std::vector<double> absolute = added("mean: 0.5 std: 0.1");
  const std::vector<double> by_value = added("mean: 0.5 std: 0.1 relative_to: VALUE");
  const std::vector<double> by_range = added("mean: 0.5 std: 0.1 relative_to: RANGE");
  std::vector<double> twice;
  for (const double v : absolute) twice.push_back(2 * v);
  expect_close(by_value, twice, {1e-6, 0}, "VALUE");
  expect_close(by_range, twice, {1e-6, 0}, "RANGE");
  LayerRun run(
      {.layer = noise("mean: 0.5 relative_to: VALUE"), .bottoms = {given({3}, {-4, 0, 1})}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{-2, 0, 1.5}));
  LayerRun range(
      {.layer = noise("mean: 0.5 relative_to: RANGE"), .bottoms = {given({3}, {-4, 0, 1})}});
  range.forward();
  EXPECT_EQ(range.top(0), (std::vector<double>{-2, 2, 3}));
}

// Quantiles against the distribution function.
TEST(Noise, NormalNumbersAreQuantiles) {
  for (const uint32_t word : {0U, 511U, 512U, 1U << 20, 1U << 28, 1U << 30, (1U << 31) - 1,
                              1U << 31, 3U << 30, 0xfff00000U, 0xffffffffU}) {
    const double u = (static_cast<double>(word >> 9) + 0.5) * 0x1p-22 - 1;
    const double g = static_cast<double>(NoiseMath::normal(word));
    EXPECT_NEAR(std::erf(g / std::sqrt(2.0)), u, 4e-7) << word;
    EXPECT_LT(std::abs(g), 5.4);
  }
  EXPECT_EQ(NoiseMath::normal(0), -NoiseMath::normal(0xffffffffU));
}

TEST(Noise, IsTheSameForTheSameIterationOnly) {
  const LayerCase c{.layer = noise("std: 1"), .bottoms = {uniform({5, 7})}};
  LayerRun run(c);
  run.forward();
  const std::vector<double> first = run.top(0);
  run.forward();
  EXPECT_EQ(run.top(0), first);
  run.state().iteration = 1;
  run.forward();
  EXPECT_THAT(run.top(0), testing::Not(testing::Pointwise(testing::DoubleNear(0.01), first)));
}

TEST(Noise, Phases) {
  for (const double v : added("std: 1 in_test: false", {}, Phase::test)) ASSERT_EQ(v, 0);
  EXPECT_NEAR(moments(added("std: 1", {}, Phase::test)).deviation, 1, 0.02);
}

TEST(Noise, PassesTheGradient) {
  for (const char* settings :
       {"std: 0.3", "std: 0.3 mean: 1 distribution: UNIFORM", "std: 0", "std: 1 in_test: false"}) {
    check_gradients({.layer = noise(settings), .bottoms = {uniform({3, 5})}});
  }
  LayerRun run({.layer = noise("std: 1 relative_to: VALUE"), .bottoms = {uniform({3, 5})}},
               {.dtype = DType::f64});
  run.forward();
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), run.top_diff(0));
}

TEST(Noise, EveryEngine) {
  for (const char* settings :
       {"std: 0.3", "std: 0.3 mean: 1 distribution: UNIFORM", "std: 0.2 relative_to: VALUE",
        "std: 0.2 relative_to: RANGE", "mean: 0.2 std: 0.1 relative_to: RANGE"}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{1}, Shape{2, 3, 37, 61}, Shape{0, 4}})
      check_engines({.layer = noise(settings), .bottoms = {uniform(shape)}});
  }
}

// What is drawn depends on seed, name, iteration and pass, and on nothing else.
TEST(Noise, DrawsAnewForEachPassSeedAndName) {
  const LayerCase c{.layer = noise("std: 1"), .bottoms = {uniform({5, 1001})}};
  LayerRun run(c);
  run.forward();
  const std::vector<double> first = run.top(0);
  const auto differs = [&](const char* what) {
    run.forward();
    EXPECT_NE(run.top(0), first) << what;
  };
  run.state().pass = 1;
  differs("pass");
  run.state().pass = 0;
  ++run.state().seed;
  differs("seed");
  --run.state().seed;
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    run.forward();
    EXPECT_EQ(run.top(0), first) << threads;
  }
  omp_set_num_threads(before);
  LayerCase other = c;
  other.layer = "layer { name: 'other' type: 'Noise' noise_param { std: 1 } }";
  LayerRun named(other);
  named.forward();
  EXPECT_NE(named.top(0), first);
}

TEST(Noise, NaNIsNotHidden) {
  for (const char* relative : {"VALUE", "RANGE"}) {
    LayerRun run({.layer = noise(text("mean: 1 relative_to: ", relative)),
                  .bottoms = {given({3}, {1, std::nan(""), 1})}});
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[1]));
    EXPECT_EQ(std::isnan(run.top(0)[2]), std::string_view(relative) == "RANGE");
  }
}

TEST(Noise, Errors) {
  expect_error([] { LayerRun({.layer = noise(""), .bottoms = {uniform({2})}}); },
               {"neither std nor mean"});
  expect_error([] { LayerRun({.layer = noise("std: -1"), .bottoms = {uniform({2})}}); },
               {"std -1"});
  expect_error([] { LayerRun({.layer = noise("mean: inf"), .bottoms = {uniform({2})}}); },
               {"mean inf"});
}

}  // namespace
}  // namespace crema::test
