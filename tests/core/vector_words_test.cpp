#include "core/vector_words.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "layer_support/channel_vectors.hpp"

namespace crema {
namespace {

template <class S>
class VectorWordsOf : public testing::Test {};
using Types = testing::Types<float, double, bfloat16, float16>;
TYPED_TEST_SUITE(VectorWordsOf, Types);

/// A value of place k: small, with more bits than 16-bit types have, subnormal, beyond the range.
double drawn(int k) {
  constexpr std::array<double, 8> kValues = {0.1,  -3.0001, 1e-7, 70000.5,
                                             -0.0, 1 / 3.0, 6e-8, 1e30};
  return kValues[static_cast<size_t>(k % 8)];
}

TYPED_TEST(VectorWordsOf, HoldValuesAsMemoryDoes) {
  using S = TypeParam;
  constexpr int kSize = kVector<S>;
  alignas(VectorWords) S stored[kSize];
  Wide<S> values[kSize];
  for (int k = 0; k < kSize; ++k) {
    values[k] = static_cast<Wide<S>>(drawn(k));
    stored[k] = convert_value<S>(values[k]);
  }
  const VectorWords packed = pack<S>(values), loaded = load_words(stored);
  Wide<S> unpacked[kSize];
  unpack<S>(loaded, unpacked);
  for (int k = 0; k < kSize; ++k) {
    const auto exact = convert_value<Wide<S>>(stored[k]);
    EXPECT_EQ(unpacked[k], exact) << k;
    EXPECT_EQ(value_in<S>(packed, k), exact) << k;
    EXPECT_EQ(wide_value(stored[k]), exact) << k;
    EXPECT_EQ(wide_value(stored_value<S>(values[k])), exact) << k;
    EXPECT_EQ(std::signbit(unpacked[k]), std::signbit(values[k])) << k;
  }
  S written[kSize];
  store_words(packed, written);
  EXPECT_EQ(std::memcmp(written, stored, sizeof stored), 0);
}

TEST(VectorWords, NaNsStayNaNs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(value_of<float16>(word_of<float16>(nan, 1) & 0xffffu)));
  EXPECT_TRUE(std::isnan(value_of<bfloat16>(word_of<bfloat16>(1, nan) >> 16)));
}

TEST(VectorWords, BeginAtMultiplesOfTheirSize) {
  alignas(VectorWords) char memory[32];
  EXPECT_TRUE(is_aligned(nullptr));
  EXPECT_TRUE(is_aligned(memory + 16));
  for (const int at : {1, 2, 4, 8, 15, 17}) EXPECT_FALSE(is_aligned(memory + at)) << at;
}

}  // namespace
}  // namespace crema
