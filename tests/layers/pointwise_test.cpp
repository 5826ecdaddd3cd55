// The loops of pointwise layers on vectors: in f32, at every level of vector instructions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

/// More than a vector, and what is left over behind the last whole one.
void expect_values(const std::string& layer, const std::function<double(double)>& f) {
  std::vector<double> x = {0,     -0.0, 1e-6, -1e-6, 80,   -80, 88.7,
                           -88.7, 89,   -89,  104,   -104, 1e4, -1e4};
  for (int i = -40; i < 47; ++i) x.push_back(i * 0.23);
  for (const double special : {kInfinity, -kInfinity, kNaN}) x.push_back(special);
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    LayerRun run({.layer = layer, .bottoms = {given({static_cast<int64_t>(x.size())}, x)}});
    run.forward();
    const std::vector<double> y = run.top(0);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = f(static_cast<float>(x[i]));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i])) << layer << " of " << x[i];
      } else if (std::isinf(expected)) {
        EXPECT_EQ(y[i], expected) << layer << " of " << x[i];
      } else {
        EXPECT_NEAR(y[i], expected, 1e-6 * std::abs(expected) + 1e-37) << layer << " of " << x[i];
      }
    }
  }
}

TEST(Pointwise, ValuesInF32) {
  expect_values("layer { type: 'Sigmoid' }", [](double x) { return 1 / (1 + std::exp(-x)); });
  expect_values("layer { type: 'TanH' }", [](double x) { return std::tanh(x); });
  expect_values("layer { type: 'ReLU' }", [](double x) { return x < 0 ? 0 : x; });
  expect_values("layer { type: 'ReLU' relu_param { negative_slope: 0.5 } }",
                [](double x) { return x < 0 ? x / 2 : x; });
}

// Backward at each level agrees with f64; the sizes leave every number of elements over.
TEST(Pointwise, GradientsInF32) {
  for (const char* layer :
       {"layer { type: 'Sigmoid' }", "layer { type: 'TanH' }", "layer { type: 'ReLU' }",
        "layer { type: 'ReLU' relu_param { negative_slope: -0.5 } }"}) {
    for (int64_t n = 1; n < 35; ++n) {
      const LayerCase c{.layer = layer, .bottoms = {uniform({n}, -4, 4)}};
      LayerRun exact(c, {.dtype = DType::f64});
      const std::vector<double> seed(static_cast<size_t>(n), 0.75);
      exact.forward();
      exact.set_top_diff(0, seed);
      exact.backward();
      for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
        SCOPED_TRACE(to_string(level));
        const SimdLimit limit(level);
        LayerRun run(c);
        run.forward();
        run.set_top_diff(0, seed);
        run.backward();
        expect_close(run.bottom_diff(0), exact.bottom_diff(0), {2e-6, 2e-6}, layer);
      }
    }
  }
}

}  // namespace
}  // namespace crema::test
