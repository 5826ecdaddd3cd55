// The functions of vectors (backend/cpu/value-inl.hpp) at every level of vector instructions,
// against those of the standard library in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/value_test.cpp"
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/value-inl.hpp"
#include "core/functor.hpp"
#include "core/simd.hpp"

#ifndef CREMA_VALUE_TEST
#define CREMA_VALUE_TEST
namespace crema::test {

enum class Function { abs, sqrt, exp, expm1, log, log1p, tanh };

}  // namespace crema::test
#endif

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using V = Value<Tag>;

template <class F>
void map(const std::vector<float>& x, std::vector<float>& y, const F& f) {
  for (size_t i = 0; i < x.size(); i += hn::MaxLanes(Tag())) {
    hn::StoreU(f(V(hn::LoadU(Tag(), &x[i]))).raw, Tag(), &y[i]);
  }
}

/// y[i] = f(x[i]), for a multiple of 16 values.
void values_of(test::Function f, const std::vector<float>& x, std::vector<float>& y) {
  using test::Function;
  switch (f) {
    case Function::abs:
      return map(x, y, [](V v) HWY_ATTR { return abs(v); });
    case Function::sqrt:
      return map(x, y, [](V v) HWY_ATTR { return sqrt(v); });
    case Function::exp:
      return map(x, y, [](V v) HWY_ATTR { return exp(v); });
    case Function::expm1:
      return map(x, y, [](V v) HWY_ATTR { return expm1(v); });
    case Function::log:
      return map(x, y, [](V v) HWY_ATTR { return log(v); });
    case Function::log1p:
      return map(x, y, [](V v) HWY_ATTR { return log1p(v); });
    case Function::tanh:
      return map(x, y, [](V v) HWY_ATTR { return tanh(v); });
  }
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(values_of);
}  // namespace

namespace test {
namespace {

struct Case {
  const char* name;
  Function function;
  double (*exact)(double);
  double bound;  // in units of the last place; a little above what a scan of 1.4 million found
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// What functors get for numbers, core/functor.hpp.
const Case kCases[] = {
    {"abs", Function::abs, [](double x) { return crema::abs(x); }, 0},
    {"sqrt", Function::sqrt, [](double x) { return crema::sqrt(x); }, 0.51},
    {"exp", Function::exp, [](double x) { return crema::exp(x); }, 1.1},
    {"expm1", Function::expm1, [](double x) { return crema::expm1(x); }, 3.5},
    {"log", Function::log, [](double x) { return crema::log(x); }, 1},
    {"log1p", Function::log1p, [](double x) { return crema::log1p(x); }, 2.5},
    {"tanh", Function::tanh, [](double x) { return crema::tanh(x); }, 3},
};

/// Every 65537th number of f32, negative ones, denormals and NaN among them, and the ends of
/// ranges.
std::vector<float> arguments() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  constexpr float kMost = std::numeric_limits<float>::max();
  std::vector<float> x = {
      0.0F,      -0.0F,      1.0F,      -1.0F,
      kInfinity, -kInfinity, kLeast,    -kLeast,
      kMost,     -kMost,     88.72283F, 88.72284F,
      -103.97F,  -103.98F,   -0x1p-24F, 0x1p-24F,
      1e-30F,    -1e-30F,    0.34657F,  -0.34658F,
      0.70710F,  1.41421F,   17.328F,   -17.328F,
      9.01F,     -0.999999F, -1.00001F, std::numeric_limits<float>::quiet_NaN()};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 65537) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  // Where results are neither 0 nor infinite.
  for (int i = -10'400; i < 9'000; ++i) x.push_back(static_cast<float>(i) * 1e-2F);
  for (int i = -10'000; i < 10'000; ++i) x.push_back(static_cast<float>(i) * 1e-4F);
  x.resize((x.size() + 15) / 16 * 16, 1.0F);
  return x;
}

double distance(float actual, double exact) {
  const double rounded = std::abs(static_cast<double>(static_cast<float>(exact)));
  const int exponent = rounded > 0 ? std::max(std::ilogb(rounded), -126) : -126;
  return std::abs(actual - exact) / std::ldexp(1.0, exponent - 23);
}

class ValueFunction : public testing::TestWithParam<Case> {};

TEST_P(ValueFunction, IsAsThatOfNumbers) {
  const Case& c = GetParam();
  static const std::vector<float> x = arguments();
  std::vector<float> y(x.size());
  std::vector<double> exact(x.size());
  for (size_t i = 0; i < x.size(); ++i) exact[i] = c.exact(x[i]);
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    if (simd_level() != level) continue;
    HWY_DYNAMIC_DISPATCH(values_of)(c.function, x, y);
    double most = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto rounded = static_cast<float>(exact[i]);
      if (!std::isfinite(rounded)) {
        ASSERT_TRUE(std::isnan(rounded) ? std::isnan(y[i]) : y[i] == rounded)
            << c.name << "(" << x[i] << ") = " << y[i] << ", not " << rounded;
      } else {
        const double apart = distance(y[i], exact[i]);
        ASSERT_LE(apart, c.bound) << c.name << "(" << x[i] << ") = " << y[i] << ", not " << rounded;
        most = std::max(most, apart);
      }
    }
    RecordProperty(std::string(to_string(level)), std::to_string(most));
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, ValueFunction, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace test
}  // namespace crema
#endif
