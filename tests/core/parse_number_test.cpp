#include "core/parse_number.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace crema {
namespace {

TEST(ParseNumber, TakesAWholeText) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_number<float>("2.5e-1"), 0.25F);
}

TEST(ParseNumber, RefusesWhatIsNotANumberOfTheType) {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "--1", "+-1", "1.5", "2147483648"}) {
    EXPECT_FALSE(parse_number<int>(text)) << text;
  }
  for (const char* text : {"", "1.5 ", "1,5", "+1", "1e999"}) {
    EXPECT_FALSE(parse_number<float>(text)) << text;
  }
  EXPECT_FALSE(parse_number<uint32_t>("-1"));
}

}  // namespace
}  // namespace crema
