#include "crema/random.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "core/philox.hpp"
#include "core/simd.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox(const Words& counter, const std::array<uint32_t, 2>& key) {
  const PhiloxBlock x =
      philox_block({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]);
  return {x.a, x.b, x.c, x.d};
}

// The known-answer vectors that the authors of Philox publish with Random123.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(StreamId, IsFnv1a) {
  EXPECT_EQ(stream_id(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stream_id("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(stream_id("foobar"), 0x85944171f73967e8u);
}

TEST(Random, TheSameAddressGivesTheSameNumbers) {
  Random first(7, stream_id("drop1"), 3), second(7, stream_id("drop1"), 3);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(first.next_u32(), second.next_u32());
  EXPECT_EQ(first.gaussian(), second.gaussian());
}

TEST(Random, FillingGivesTheSameNumbersOneByOne) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    Random single(7, 8, 9), filled(7, 8, 9);
    for (const size_t count : {0, 1, 2, 4, 5, 64, 67, 1000}) {
      std::vector<uint32_t> words(count);
      filled.fill(words);
      for (const uint32_t word : words) ASSERT_EQ(word, single.next_u32()) << count;
    }
    EXPECT_EQ(filled.next_u32(), single.next_u32());
  }
}

TEST(Random, OtherAddressesGiveOtherNumbers) {
  std::set<uint64_t> seen;
  for (const uint64_t seed : {0u, 1u, 2u}) {
    for (const uint64_t stream : {0u, 1u, 2u}) {
      for (const uint64_t step : {0u, 1u, 2u}) {
        Random random(seed, stream, step);
        for (int i = 0; i < 10; ++i) seen.insert(random.next_u64());
      }
    }
  }
  EXPECT_EQ(seen.size(), 270u);
}

TEST(Random, LargeStepsAreTheirOwn) {
  EXPECT_NE(Random(1, 1, 5).next_u64(), Random(1, 1, 5 + (uint64_t{1} << 32)).next_u64());
}

TEST(Random, UniformFloatsLieInTheHalfOpenUnitInterval) {
  Random random(1, 2);
  double sum = 0, squares = 0;
  constexpr int kCount = 1000000;
  for (int i = 0; i < kCount; ++i) {
    const float x = random.uniform();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    ASSERT_EQ(x * 0x1p24f, std::floor(x * 0x1p24f));
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1 / 12.0 / kCount));
  EXPECT_NEAR(squares / kCount, 1 / 3.0, 5 * std::sqrt(4 / 45.0 / kCount));
}

TEST(Random, UniformDoublesKeepTheirBounds) {
  Random random(1, 3);
  double least = 10, greatest = -10;
  for (int i = 0; i < 100000; ++i) {
    const double x = random.uniform(-2.0, 3.0);
    least = std::min(least, x);
    greatest = std::max(greatest, x);
  }
  EXPECT_GE(least, -2);
  EXPECT_LT(greatest, 3);
  EXPECT_LT(least, -1.999);
  EXPECT_GT(greatest, 2.999);
  // An interval of two neighbouring numbers has one member.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.uniform(1.0, std::nextafter(1.0, 2.0)), 1);
  EXPECT_EQ(random.uniform(4.0, 4.0), 4);
}

TEST(Random, GaussiansHaveTheMomentsOfTheNormalDistribution) {
  Random random(1, 4);
  constexpr int kCount = 1000000;
  double moment[5] = {};
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.gaussian();
    for (int k = 1; k <= 4; ++k) moment[k] += std::pow(x, k) / kCount;
    beyond_two += std::abs(x) > 2;
  }
  // Five standard errors: the k-th power has the variance E x^2k - (E x^k)^2.
  const double unit = 5 / std::sqrt(kCount);
  EXPECT_NEAR(moment[1], 0, unit);
  EXPECT_NEAR(moment[2], 1, unit * std::sqrt(2));
  EXPECT_NEAR(moment[3], 0, unit * std::sqrt(15));
  EXPECT_NEAR(moment[4], 3, unit * std::sqrt(96));
  EXPECT_NEAR(beyond_two / static_cast<double>(kCount), 0.0455, unit * 0.21);
}

TEST(Random, BelowReachesEveryIntegerEquallyOften) {
  Random random(1, 5);
  std::vector<int> hits(6);
  constexpr int kCount = 600000;
  for (int i = 0; i < kCount; ++i) ++hits[random.below(6)];
  for (const int count : hits) EXPECT_NEAR(count, 100000, 5 * std::sqrt(100000 * 5 / 6.0));
}

// Taking the remainder of 64 bits by 3 * 2^62 would give the lowest third twice as often.
TEST(Random, BelowHasNoModuloBias) {
  Random random(1, 6);
  constexpr uint64_t kThird = uint64_t{1} << 62;
  int lowest = 0;
  constexpr int kCount = 300000;
  for (int i = 0; i < kCount; ++i) lowest += random.below(3 * kThird) < kThird;
  EXPECT_NEAR(lowest, kCount / 3.0, 5 * std::sqrt(kCount * 2 / 9.0));
}

TEST(Random, BelowOneIsZeroAndBelowZeroAnError) {
  Random random(1, 7);
  EXPECT_EQ(random.below(1), 0u);
  expect_error([&] { random.below(0); }, {"below 0"});
}

}  // namespace
}  // namespace crema
