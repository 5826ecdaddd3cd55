// bf16 and f16 against references that work in a different way: by searching, among all values of
// the type, the two neighbours of a float.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/convert.hpp"
#include "crema/random.hpp"
#include "crema/tensor.hpp"

namespace crema {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Bfloat16 {
  using Type = bfloat16;
  static constexpr int kExponentBits = 8, kMantissaBits = 7;
};
struct Float16 {
  using Type = float16;
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
};

/// The value that IEEE 754 gives to `bits`.
template <class Kind>
double ieee_value(uint16_t bits) {
  const int bias = (1 << (Kind::kExponentBits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> Kind::kMantissaBits;
  const int mantissa = bits & ((1 << Kind::kMantissaBits) - 1);
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - Kind::kMantissaBits)
                               : std::ldexp(mantissa + (1 << Kind::kMantissaBits),
                                            exponent - bias - Kind::kMantissaBits);
  if (exponent == (1 << Kind::kExponentBits) - 1) {
    value = mantissa == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class Kind>
class Half : public testing::Test {
 public:
  using Type = typename Kind::Type;

  static constexpr uint16_t kInfinityBits =
      static_cast<uint16_t>(0x7fff >> Kind::kMantissaBits << Kind::kMantissaBits);

  Half() {
    for (uint32_t bits = 0; bits <= kInfinityBits; ++bits) {
      values_.push_back(ieee_value<Kind>(static_cast<uint16_t>(bits)));
    }
    // As far as rounding goes, infinity stands where the next number would.
    values_.back() = 2 * values_[kInfinityBits - 1] - values_[kInfinityBits - 2];
  }

  /// Nearest value, ties to the even one, by search.
  uint16_t rounded(float x) const {
    const double magnitude = std::abs(static_cast<double>(x));
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    auto bits = static_cast<uint16_t>(above - values_.begin());
    if (above == values_.end()) {
      bits = kInfinityBits;
    } else if (*above != magnitude) {
      const double to_upper = *above - magnitude;
      const double to_lower = magnitude - *(above - 1);
      if (to_lower < to_upper || (to_lower == to_upper && bits % 2 == 1)) --bits;
    }
    return static_cast<uint16_t>(bits | (std::signbit(x) ? 0x8000 : 0));
  }

 private:
  std::vector<double> values_;
};

class KindNames {
 public:
  template <class Kind>
  static std::string GetName(int) {
    return Kind::kExponentBits == 8 ? "bf16" : "f16";
  }
};
using HalfKinds = testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(Half, HalfKinds, KindNames);

TYPED_TEST(Half, WidensEveryValue) {
  using T = typename TypeParam::Type;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    T half;
    half.bits = static_cast<uint16_t>(bits);
    const double expected = ieee_value<TypeParam>(half.bits);
    const float actual = static_cast<float>(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(actual, expected) << bits;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
    }
    ASSERT_EQ(T(actual).bits, std::isnan(expected) ? T(actual).bits : half.bits);
  }
}

TYPED_TEST(Half, RoundsEveryNeighbourhoodToNearestEven) {
  using T = typename TypeParam::Type;
  for (uint32_t bits = 0; bits < this->kInfinityBits; ++bits) {
    const double low = ieee_value<TypeParam>(static_cast<uint16_t>(bits));
    const double next = ieee_value<TypeParam>(static_cast<uint16_t>(bits + 1));
    const double high =
        std::isinf(next) ? 2 * low - ieee_value<TypeParam>(static_cast<uint16_t>(bits - 1)) : next;
    const float middle = static_cast<float>((low + high) / 2);
    for (const float x :
         {static_cast<float>(low), std::nextafter(static_cast<float>(low), kInfinity),
          std::nextafter(middle, 0.0f), middle, std::nextafter(middle, kInfinity)}) {
      ASSERT_EQ(T(x).bits, this->rounded(x)) << std::hexfloat << x;
      ASSERT_EQ(T(-x).bits, this->rounded(-x)) << std::hexfloat << -x;
    }
  }
}

TYPED_TEST(Half, RoundsFloatsOfAllKinds) {
  using T = typename TypeParam::Type;
  Random random(1, stream_id("half"));
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(random.next_u32());
    if (!std::isnan(x)) {
      ASSERT_EQ(T(x).bits, this->rounded(x)) << std::hexfloat << x;
    }
  }
}

TYPED_TEST(Half, OverflowBecomesInfinity) {
  using T = typename TypeParam::Type;
  EXPECT_EQ(T(kInfinity).bits, this->kInfinityBits);
  EXPECT_EQ(T(-kInfinity).bits, this->kInfinityBits | 0x8000);
  EXPECT_EQ(T(std::numeric_limits<float>::max()).bits, this->kInfinityBits);
}

TYPED_TEST(Half, NanStaysNanWhateverItsPayload) {
  using T = typename TypeParam::Type;
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(T(std::bit_cast<float>(bits))))) << std::hex << bits;
  }
}

TEST(Float16, KnownValues) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(float16(0x1.000002p-25f).bits, 0x0001);
}

TEST(Bfloat16, KnownValues) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(1.00390625f).bits, 0x3f80);  // a tie, down to even
  EXPECT_EQ(bfloat16(1.01171875f).bits, 0x3f82);  // a tie, up to even
}

}  // namespace
}  // namespace crema
