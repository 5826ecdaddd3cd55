// Layers of which each element of the top is a function of one element of the bottom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

using Function = std::function<double(double)>;

struct Room {
  const char* layer;
  Function value, derivative;
  /// Where the derivative is compared with differences: without kinks.
  std::vector<std::pair<double, double>> ranges = {{-3, 3}};
  bool keeps_zero = true;   // f(0) = 0: blocked formats with padding
  double tolerance = 1e-6;  // relative, of values in f32
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_inner(double x) { return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x); }

const double kSixth = 0.16666667F;

const std::vector<std::pair<double, double>> kSides = {{0.1, 3}, {-3, -0.1}};
const std::vector<std::pair<double, double>> kPositive = {{0.1, 3}};

const std::vector<Room>& rooms() {
  static const std::vector<Room> all = {
      {"layer { type: 'Sigmoid' }",
       sigmoid,
       [](double x) { return sigmoid(x) * (1 - sigmoid(x)); },
       {{-3, 3}},
       false},
      {"layer { type: 'TanH' }", [](double x) { return std::tanh(x); },
       [](double x) { return 1 - std::tanh(x) * std::tanh(x); }},
      {"layer { type: 'ReLU' }", [](double x) { return x < 0 ? 0 : x; },
       [](double x) { return x > 0 ? 1 : 0; }, kSides},
      {"layer { type: 'ReLU' relu_param { negative_slope: 0.5 } }",
       [](double x) { return x < 0 ? x / 2 : x; }, [](double x) { return x > 0 ? 1 : 0.5; },
       kSides},
      {"layer { type: 'ReLU' relu_param { negative_slope: -0.5 } }",
       [](double x) { return x < 0 ? -x / 2 : x; }, [](double x) { return x > 0 ? 1 : -0.5; },
       kSides},
      {"layer { type: 'AbsVal' }", [](double x) { return std::abs(x); },
       [](double x) { return x > 0   ? 1.0
                             : x < 0 ? -1.0
                                     : 0.0; }, kSides},
      {"layer { type: 'BNLL' }",
       [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
       sigmoid,
       {{-3, 3}},
       false},
      {"layer { type: 'Clip' clip_param { min: -1 max: 2 } }",
       [](double x) { return x < -1  ? -1
                             : x > 2 ? 2
                                     : x; },
       [](double x) { return x >= -1 && x <= 2 ? 1 : 0; },
       {{-0.9, 1.9}, {2.1, 3}, {-3, -1.1}},
       false},
      {"layer { type: 'ELU' }", [](double x) { return x > 0 ? x : std::expm1(x); },
       [](double x) { return x > 0 ? 1 : std::exp(x); }},
      {"layer { type: 'ELU' elu_param { alpha: 1.5 lambda: 0.5 } }",
       [](double x) { return 0.5 * (x > 0 ? x : 1.5 * std::expm1(x)); },
       [](double x) { return 0.5 * (x > 0 ? 1 : 1.5 * std::exp(x)); }, kSides},
      {"layer { type: 'ELU' elu_param { alpha: -0.75 } }",
       [](double x) { return x > 0 ? x : -0.75 * std::expm1(x); },
       [](double x) { return x > 0 ? 1 : -0.75 * std::exp(x); }, kSides},
      {"layer { type: 'ELU' elu_param { lambda: -2 } }",
       [](double x) { return -2 * (x > 0 ? x : std::expm1(x)); },
       [](double x) { return -2 * (x > 0 ? 1 : std::exp(x)); }, kSides},
      {"layer { type: 'Exp' }",
       [](double x) { return std::exp(x); },
       [](double x) { return std::exp(x); },
       {{-3, 3}},
       false},
      {"layer { type: 'Exp' exp_param { base: 2 scale: 0.5 shift: 1 } }",
       [](double x) { return std::exp2(0.5 * x + 1); },
       [](double x) { return 0.5 * std::log(2) * std::exp2(0.5 * x + 1); },
       {{-3, 3}},
       false,
       1e-5},
      {"layer { type: 'GELU' }",
       [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); },
       [](double x) {
         return 0.5 * std::erfc(-x / std::sqrt(2.0)) +
                x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
       },
       {{-3, 3}},
       true,
       5e-6},
      {"layer { type: 'GELU' gelu_param { approximate: TANH } }",
       [](double x) { return x * sigmoid(2 * gelu_inner(x)); },
       [](double x) {
         const double t = std::tanh(gelu_inner(x));
         const double slope = std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x);
         return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
       },
       {{-3, 3}},
       true,
       1e-5},
      {"layer { type: 'HardSigmoid' }",
       [](double x) { return std::clamp(kSixth * x + 0.5, 0.0, 1.0); },
       [](double x) { return std::abs(x) < 3 ? kSixth : 0; },
       {{-2.9, 2.9}, {3.1, 5}, {-5, -3.1}},
       false,
       2e-5},  // near -3, a difference of two numbers near 1/2
      {"layer { type: 'HardSigmoid' hard_sigmoid_param { alpha: 0.25 beta: 0.375 } }",
       [](double x) { return std::clamp(0.25 * x + 0.375, 0.0, 1.0); },
       [](double x) { return x > -1.5 && x < 2.5 ? 0.25 : 0; },
       {{-1.4, 2.4}, {2.6, 5}, {-5, -1.6}},
       false},
      {"layer { type: 'HardSwish' }",
       [](double x) { return x <= -3  ? 0
                             : x >= 3 ? x
                                      : x * (x / 6 + 0.5); },
       [](double x) { return x <= -3  ? 0
                             : x >= 3 ? 1
                                      : x / 3 + 0.5; },
       {{-2.9, 2.9}, {3.1, 5}, {-5, -3.1}},
       true,
       2e-5},
      {"layer { type: 'Mish' }", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); },
       [](double x) {
         const double t = std::tanh(std::log1p(std::exp(x)));
         return t + x * (1 - t * t) * sigmoid(x);
       }},
      {"layer { type: 'ReLU6' }",
       [](double x) { return x < 0   ? 0
                             : x > 6 ? 6
                                     : x; },
       [](double x) { return x > 0 && x < 6 ? 1 : 0; },
       {{0.1, 5.9}, {-3, -0.1}, {6.1, 9}}},
      {"layer { type: 'Log' }", [](double x) { return std::log(x); },
       [](double x) { return 1 / x; }, kPositive, false},
      {"layer { type: 'Log' log_param { base: 10 scale: 2 shift: 0.5 } }",
       [](double x) { return std::log10(2 * x + 0.5); },
       [](double x) { return 2 / (2 * x + 0.5) / std::log(10); }, kPositive, false, 3e-6},
      {"layer { type: 'Power' }",
       [](double x) { return x; },
       [](double) { return 1; },
       {{-3, 3}},
       false},
      {"layer { type: 'Power' power_param { scale: -3 shift: 2 } }",
       [](double x) { return 2 - 3 * x; },
       [](double) { return -3; },
       {{-3, 3}},
       false},
      {"layer { type: 'Power' power_param { power: 0 } }",
       [](double) { return 1; },
       [](double) { return 0; },
       {{-3, 3}},
       false},
      {"layer { type: 'Power' power_param { power: 2 scale: 0.5 shift: 1 } }",
       [](double x) { return (0.5 * x + 1) * (0.5 * x + 1); },
       [](double x) { return 0.5 * x + 1; },
       {{-3, 3}},
       false},
      {"layer { type: 'Power' power_param { power: 3 } }",
       [](double x) { return x * x * x; },
       [](double x) { return 3 * x * x; },
       {{-3, 3}},
       false},
      {"layer { type: 'Power' power_param { power: -1 } }", [](double x) { return 1 / (x + 0.0); },
       [](double x) { return -1 / (x * x); }, kPositive, false},
      {"layer { type: 'Power' power_param { power: 0.5 } }", [](double x) { return std::sqrt(x); },
       [](double x) { return 0.5 / std::sqrt(x); }, kPositive, false},
      {"layer { type: 'Power' power_param { power: -0.75 scale: 2 } }",
       [](double x) { return std::pow(2 * x, -0.75); },
       [](double x) { return -1.5 * std::pow(2 * x, -1.75); }, kPositive, false},
      {"layer { type: 'Power' power_param { power: 5 } }",
       [](double x) { return std::pow(x, 5); },
       [](double x) { return 5 * std::pow(x, 4); },
       {{-3, 3}},
       false},
      {"layer { type: 'Power' power_param { power: 2.5 } }",
       [](double x) { return std::pow(x, 2.5); }, [](double x) { return 2.5 * std::pow(x, 1.5); },
       kPositive, false},
      {"layer { type: 'Swish' }", [](double x) { return x * sigmoid(x); },
       [](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }},
      {"layer { type: 'Swish' swish_param { beta: 1.5 } }",
       [](double x) { return x * sigmoid(1.5 * x); },
       [](double x) { return sigmoid(1.5 * x) * (1 + 1.5 * x * (1 - sigmoid(1.5 * x))); }},
      {"layer { type: 'Threshold' threshold_param { threshold: 0.5 } }",
       [](double x) { return x > 0.5 ? 1 : 0; },
       nullptr,
       {{-3, 3}},
       false},
  };
  return all;
}

TEST(Pointwise, ValuesAndDerivativesInF64) {
  for (const Room& room : rooms()) {
    SCOPED_TRACE(room.layer);
    for (const auto& [low, high] : room.ranges) {
      std::vector<double> x, expected, derivatives;
      for (int i = 0; i <= 20; ++i) x.push_back(low + (high - low) * i / 20);
      // Where exponentials are 0 or nearly infinite.
      for (const double far : {6, 100, 200}) {
        if (high > 0) x.push_back(far);
        if (low < 0) x.push_back(-far);
      }
      const auto count = static_cast<int64_t>(x.size());
      LayerRun run({.layer = room.layer, .bottoms = {given({count}, x)}}, {.dtype = DType::f64});
      run.forward();
      for (const double value : x) expected.push_back(room.value(value));
      expect_close(run.top(0), expected, {1e-13, 1e-13}, "top");
      if (!room.derivative) continue;
      run.set_top_diff(0, std::vector<double>(x.size(), 2));
      run.backward();
      for (const double value : x) derivatives.push_back(2 * room.derivative(value));
      expect_close(run.bottom_diff(0), derivatives, {1e-13, 1e-13}, "bottom diff");
    }
  }
}

// More than a vector, and what is left over behind the last whole one; the ends of the range, and
// what is no number.
TEST(Pointwise, ValuesInF32) {
  std::vector<double> x = {0,     -0.0, 1e-6, -1e-6, 80,   -80, 88.7,
                           -88.7, 89,   -89,  104,   -104, 1e4, -1e4};
  for (int i = -40; i < 47; ++i) x.push_back(i * 0.23);
  for (const double special : {kInfinity, -kInfinity, kNaN}) x.push_back(special);
  for (const Room& room : rooms()) {
    for (const SimdLevel level :
         {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
      SCOPED_TRACE(to_string(level));
      const SimdLimit limit(level);
      LayerRun run({.layer = room.layer, .bottoms = {given({static_cast<int64_t>(x.size())}, x)}});
      run.forward();
      const std::vector<double> y = run.top(0);
      for (size_t i = 0; i < x.size(); ++i) {
        const double exact = room.value(static_cast<float>(x[i]));
        const double expected = std::abs(exact) > std::numeric_limits<float>::max()
                                    ? std::copysign(kInfinity, exact)
                                    : exact;
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(y[i])) << room.layer << " of " << x[i] << ": " << y[i];
        } else if (std::isinf(expected)) {
          EXPECT_EQ(y[i], expected) << room.layer << " of " << x[i];
        } else {
          EXPECT_NEAR(y[i], expected,
                      room.tolerance * std::abs(expected) +
                          1e-37 * std::fmin(std::fmax(std::abs(x[i]), 1), 1e4))
              << room.layer << " of " << x[i];
        }
      }
    }
  }
}

// Backward at each level agrees with f64; the sizes leave every number of elements over.
TEST(Pointwise, GradientsInF32) {
  for (const Room& room : rooms()) {
    if (!room.derivative) continue;
    for (int64_t n = 1; n < 35; ++n) {
      const auto& [low, high] = room.ranges[static_cast<size_t>(n) % room.ranges.size()];
      const LayerCase c{.layer = room.layer, .bottoms = {uniform({n}, low, high)}};
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
        expect_close(run.bottom_diff(0), exact.bottom_diff(0), {2e-6, 2e-6}, room.layer);
      }
    }
  }
}

TEST(Pointwise, Gradients) {
  for (const Room& room : rooms()) {
    SCOPED_TRACE(room.layer);
    if (!room.derivative) continue;
    for (const auto& [low, high] : room.ranges) {
      check_gradients({.layer = room.layer, .bottoms = {uniform({2, 3, 5, 4}, low, high)}});
    }
  }
}

// f(0) has to be 0 for blocked formats with padding: padded channels would not stay zero.
TEST(Pointwise, EveryEngineAndFormat) {
  using testing::Contains, testing::HasSubstr, testing::IsSupersetOf, testing::Not;
  for (const Room& room : rooms()) {
    SCOPED_TRACE(room.layer);
    if (!room.derivative) continue;
    const double low = 2 * room.ranges[0].first, high = 2 * room.ranges[0].second;
    const auto whole =
        check_engines({.layer = room.layer, .bottoms = {uniform({2, 32, 3, 5}, low, high)}});
    EXPECT_THAT(whole, IsSupersetOf({"reference contiguous", "reference channels_last",
                                     "reference blocked8", "reference blocked16"}));
    const auto padded =
        check_engines({.layer = room.layer, .bottoms = {uniform({2, 11, 3, 5}, low, high)}});
    if (room.keeps_zero) {
      EXPECT_THAT(padded, Contains(HasSubstr("blocked")));
    } else {
      EXPECT_THAT(padded, Not(Contains(HasSubstr("blocked"))));
    }
    check_engines({.layer = room.layer, .bottoms = {uniform({3, 7}, low, high)}});
  }
}

TEST(Pointwise, SettingsOutOfRange) {
  const auto refuses = [](const std::string& layer, const char* message) {
    SCOPED_TRACE(layer);
    try {
      LayerRun run({.layer = layer, .bottoms = {uniform({2})}});
      ADD_FAILURE() << "no Error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  };
  refuses("layer { type: 'Exp' exp_param { base: 0 } }", "base 0 is not above 0");
  refuses("layer { type: 'Exp' exp_param { base: -2 } }", "base -2 is not above 0");
  refuses("layer { type: 'Log' log_param { base: 1 } }", "base 1 is not above 0 and other than 1");
  refuses("layer { type: 'Log' log_param { base: -3 } }", "base -3");
  refuses("layer { type: 'Clip' }", "min and max are missing");
  refuses("layer { type: 'Clip' clip_param { min: 2 max: 1 } }", "min 2 is not at most max 1");
  refuses("layer { type: 'Clip' clip_param { min: nan max: 1 } }", "min nan");
}

}  // namespace
}  // namespace crema::test
