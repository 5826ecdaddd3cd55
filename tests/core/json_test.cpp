#include "core/json.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace crema {
namespace {

TEST(Json, StringsAreEscaped) {
  EXPECT_EQ(json_string("a \"b\" \\ \n\x01"), "\"a \\\"b\\\" \\\\ \\u000a\\u0001\"");
  EXPECT_EQ(json_string("caf\xC3\xA9 caf\xE9"), "\"caf\xC3\xA9 caf\xEF\xBF\xBD\"");
}

TEST(Json, NumbersHaveTheDigitsOfTheirType) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(0.1F), "0.1");
  EXPECT_EQ(json_number(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<float>::infinity()), "null");
}

}  // namespace
}  // namespace crema
