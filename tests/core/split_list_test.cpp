#include "core/split_list.hpp"

#include <gtest/gtest.h>

namespace crema {
namespace {

TEST(SplitList, GivesThePartsThatAreNotEmpty) {
  EXPECT_EQ(split_list("a,bc"), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(split_list(",a,,b,"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split_list(" a b ,\tc\n, "), (std::vector<std::string>{"a b", "c"}));
  EXPECT_TRUE(split_list("").empty());
  EXPECT_TRUE(split_list(",").empty());
}

}  // namespace
}  // namespace crema
