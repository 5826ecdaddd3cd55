#include "core/fast_division.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace crema::test {
namespace {

/// Numerators around multiples of the divisor and of powers of 2, below `below`.
std::vector<int64_t> numerators(int64_t divisor, int64_t below) {
  std::vector<int64_t> found;
  const auto add_around = [&](int64_t n) {
    const int64_t last = n < below - 2 ? n + 2 : below - 1;
    for (int64_t k = std::max<int64_t>(n - 2, 0); k <= last; ++k) found.push_back(k);
  };
  add_around(0);
  add_around(below - 3);
  for (int64_t power = 1; power < below; power *= 2) {
    add_around(power);
    add_around(power / divisor * divisor);
    if (power > below / 2) break;
  }
  add_around((below - 1) / divisor * divisor);
  for (int64_t k = 1; k < 100 && k < below / divisor; ++k) add_around(k * divisor);
  return found;
}

void expect_division(int64_t divisor, int64_t below, const std::vector<int64_t>& values) {
  const FastDivision by(divisor, below);
  for (const int64_t n : values) {
    ASSERT_EQ(n / by, n / divisor) << n << " / " << divisor;
    ASSERT_EQ(n % by, n % divisor) << n << " % " << divisor;
  }
}

constexpr int64_t kNarrow = int64_t{1} << 31, kWide = std::numeric_limits<int64_t>::max();

TEST(FastDivision, OfSmallNumbersIsThatOfTheProcessor) {
  std::vector<int64_t> all(5000);
  for (size_t n = 0; n < all.size(); ++n) all[n] = static_cast<int64_t>(n);
  for (int64_t divisor = 1; divisor <= 600; ++divisor) {
    expect_division(divisor, kNarrow, all);
    expect_division(divisor, kWide, all);
  }
}

TEST(FastDivision, OfAnyNumbersIsThatOfTheProcessor) {
  std::vector<int64_t> divisors = {7, 12, 49, 56, 112, 147, 1000, 3136, 12544, 50176, 641};
  for (int64_t power = 1; power <= kNarrow; power *= 2) {
    for (const int64_t near : {power - 1, power, power + 1}) {
      if (near >= 1) divisors.push_back(near);
    }
  }
  for (const int64_t divisor : divisors) {
    if (divisor <= kNarrow) expect_division(divisor, kNarrow, numerators(divisor, kNarrow));
    expect_division(divisor, kWide, numerators(divisor, kWide));
  }
  for (const int64_t divisor : {kNarrow * 3, kWide / 2, kWide - 1, kWide, int64_t{1} << 62}) {
    expect_division(divisor, kWide, numerators(divisor, kWide));
  }
}

TEST(FastDivision, WithoutNumbersTakesAnyDivisor) {
  for (const int64_t below : {0, 1}) {
    const FastDivision by(0, below);
    EXPECT_EQ(by.divisor(), 1);
    EXPECT_EQ(0 / by, 0);
    EXPECT_EQ(0 % by, 0);
  }
  EXPECT_THROW(FastDivision(0, 2), Error);
  EXPECT_THROW(FastDivision(-1, kWide), Error);
}

TEST(FastDivision, ByOneIsTheNumber) {
  const FastDivision by;
  for (const int64_t n : {int64_t{0}, int64_t{5}, kNarrow - 1}) EXPECT_EQ(n / by, n);
}

}  // namespace
}  // namespace crema::test
